"""Renew static/vendor/ from package-lock.json: `python deploy/frontend/vendor.py`.

npm checks each package against the lock's hashes and runs none of their scripts. What is kept
is listed in static/vendor/VENDOR.json with version, licence and SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "static" / "vendor"
SVG = "http://www.w3.org/2000/svg"

FILES = {
    "bootstrap": ["dist/css/bootstrap.min.css"],
    "htmx.org": ["dist/htmx.min.js"],
    "htmx-ext-sse": ["dist/sse.min.js"],
    "idiomorph": ["dist/idiomorph-ext.min.js"],
    "@fontsource-variable/inter": [
        "files/inter-latin-wght-normal.woff2",
        "files/inter-latin-ext-wght-normal.woff2",
    ],
    "@fontsource-variable/jetbrains-mono": [
        "files/jetbrains-mono-latin-wght-normal.woff2",
        "files/jetbrains-mono-latin-ext-wght-normal.woff2",
    ],
}
"""Package -> files copied as they are, less the line that points to a source map."""

BUNDLES: dict[str, list[str]] = {
    "codemirror.js": [
        "@codemirror/commands",
        "@codemirror/language",
        "@codemirror/legacy-modes",
        "@codemirror/lint",
        "@codemirror/state",
        "@codemirror/view",
        "@lezer/highlight",
    ]
}
"""Entry file here -> the packages it takes in; esbuild makes `<entry>/<entry>.min.js` of it."""

UNDECLARED = {"htmx-ext-sse": "0BSD"}
"""Licences that a package has only as a file."""

_SOURCE_MAP = re.compile(rb"\n?(/\*|//)# sourceMappingURL=\S+( \*/)?\s*\Z")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="carrel-vendor-") as scratch:
        work = Path(scratch)
        for name in ("package.json", "package-lock.json", ".npmrc", *BUNDLES):
            shutil.copy(HERE / name, work)
        subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=work, check=True)
        fresh = work / "vendor"
        packages = [copy(work, fresh, package) for package in FILES]
        packages.append(sprite(work, fresh))
        packages += [bundle(work, fresh, entry) for entry in BUNDLES]
        listing = json.dumps({"packages": packages}, indent=2) + "\n"
        (fresh / "VENDOR.json").write_text(listing)
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(fresh, TARGET)
    print(f"{TARGET}: {len(packages)} packages")


def copy(work: Path, fresh: Path, package: str) -> dict[str, object]:
    """Keep a package's listed files and its licence."""
    folder = fresh / _short(package)
    folder.mkdir(parents=True)
    kept = []
    for file in FILES[package]:
        content = (work / "node_modules" / package / file).read_bytes()
        path = folder / Path(file).name
        path.write_bytes(_SOURCE_MAP.sub(b"\n", content))
        kept.append(path)
    return _entry(work, fresh, package, kept)


def sprite(work: Path, fresh: Path) -> dict[str, object]:
    """One SVG file with a symbol for each icon in icons.txt."""
    package = work / "node_modules" / "bootstrap-icons"
    ElementTree.register_namespace("", SVG)
    root = ElementTree.Element(f"{{{SVG}}}svg")
    for name in (HERE / "icons.txt").read_text().split():
        # Not from strangers: npm compared the package with the lock's hash.
        drawn = ElementTree.parse(package / "icons" / f"{name}.svg").getroot()  # noqa: S314
        symbol = ElementTree.SubElement(root, f"{{{SVG}}}symbol", id=name, viewBox="0 0 16 16")
        symbol.extend(drawn)
    folder = fresh / "bootstrap-icons"
    folder.mkdir()
    path = folder / "icons.svg"
    path.write_bytes(ElementTree.tostring(root, encoding="utf-8") + b"\n")
    return _entry(work, fresh, "bootstrap-icons", [path])


def bundle(work: Path, fresh: Path, entry: str) -> dict[str, object]:
    """Make one minified file of an entry file and the packages it takes in."""
    name = Path(entry).stem
    folder = fresh / name
    folder.mkdir()
    path = folder / f"{name}.min.js"
    esbuild = work / "node_modules" / "esbuild" / "lib" / "main.js"
    options = {"bundle": True, "minify": True, "format": "iife", "legalComments": "inline"}
    call = {**options, "entryPoints": [str(work / entry)], "outfile": str(path)}
    script = f"require({json.dumps(str(esbuild))}).buildSync({json.dumps(call)})"
    subprocess.run(["node", "-e", script], cwd=work, check=True)
    parts = [_about(work, package) for package in BUNDLES[entry]]
    licences = [_licence(work, package).read_text() for package in BUNDLES[entry]]
    (folder / "LICENSE").write_text("\n\n".join(dict.fromkeys(licences)))
    return {"name": name, "made_of": parts, "files": _hashes(fresh, [path])}


def _entry(work: Path, fresh: Path, package: str, kept: list[Path]) -> dict[str, object]:
    shutil.copy(_licence(work, package), kept[0].parent / "LICENSE")
    return {**_about(work, package), "files": _hashes(fresh, kept)}


def _about(work: Path, package: str) -> dict[str, str]:
    described = json.loads((work / "node_modules" / package / "package.json").read_text())
    licence = described.get("license") or UNDECLARED[package]
    return {"name": package, "version": described["version"], "licence": licence}


def _licence(work: Path, package: str) -> Path:
    return next(iter(sorted((work / "node_modules" / package).glob("LICEN[SC]E*"))))


def _hashes(fresh: Path, paths: list[Path]) -> dict[str, str]:
    return {
        str(path.relative_to(fresh)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def _short(package: str) -> str:
    return package.rpartition("/")[2].removesuffix(".org")


if __name__ == "__main__":
    main()
