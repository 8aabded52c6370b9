"""The portal's settings with a data directory of this test process's own.

Its path is short, as a socket's name has 107 bytes at most. The database is a file: SQLite in
memory locks tables and not the whole, which is not what is used for real.
"""

import os
import tempfile

os.environ["CARREL_DATA"] = tempfile.mkdtemp(prefix="carrel-test-")
os.environ["CARREL_SECRET_KEY"] = "only-for-tests-" + "x" * 50
for _name in ("REDIS_URL", "CARREL_BASE_URL", "CARREL_HOSTS", "PORT"):
    os.environ.pop(_name, None)

from portal.settings import *  # noqa: E402, F403
from portal.settings import DATA, DATABASES, STATIC_ROOT  # noqa: E402

if DATABASES["default"]["ENGINE"].endswith("sqlite"):
    DATABASES["default"]["TEST"] = {"NAME": str(DATA / "test.sqlite3")}
STATIC_ROOT.mkdir()
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
