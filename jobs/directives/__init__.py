"""`#SBATCH` lines of a script, and the fields of a form, to a job's specification."""

from jobs.directives.build import Built, Checked, Parsed, SpecErrors, build_spec, check, parse
from jobs.directives.lines import Notice

__all__ = ["Built", "Checked", "Notice", "Parsed", "SpecErrors", "build_spec", "check", "parse"]
