#!/usr/bin/env python3
"""Builds the Debian package that `cargo deb` would build, with only dpkg-deb.

It reads the same table of Cargo.toml. It exists to test the package in seconds: cargo-deb takes
minutes to install. Packages for release are built by `cargo deb`, which determines the library
versions that are needed and compresses better.

assemble-package.py BINARY VERSION OUT.deb
"""

import glob
import gzip
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

HOME = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = ["preinst", "postinst", "prerm", "postrm"]


def files_of(asset):
    """Each file of an asset with its target path, by the rules of cargo-deb."""
    source, target, mode = asset
    found = sorted(glob.glob(source, root_dir=HOME))
    if not found:
        sys.exit(f"Cargo.toml: no file matches {source}")
    fixed = pathlib.PurePath(source.split("*")[0])
    for name in found:
        path = pathlib.PurePath(name)
        if not target.endswith("/"):
            place = pathlib.PurePath(target)
        elif "*/" in source:
            place = target / path.relative_to(fixed)
        else:
            place = target / pathlib.PurePath(path.name)
        yield HOME / name, place, int(mode, 8)


def copy_assets(table, binary, root):
    for asset in table["assets"]:
        if asset[0].startswith("target/release/"):
            triples = [(binary, pathlib.PurePath(asset[1], pathlib.Path(asset[0]).name), 0o755)]
        else:
            triples = files_of(asset)
        for source, place, mode in triples:
            target = root / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if place.is_relative_to("usr/share/man"):
                target = target.with_name(target.name + ".gz")
                target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
            else:
                shutil.copyfile(source, target)
            target.chmod(mode)


def write_control(package, table, version, root):
    control = root / "DEBIAN"
    control.mkdir()
    architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    depends = table["depends"].replace("$auto", "libc6, libgcc-s1")
    description = "".join(
        f" {line}\n" for line in table["extended-description"].strip().splitlines()
    )
    (control / "control").write_text(
        f"Package: {package['name']}\n"
        f"Version: {version}\n"
        f"Architecture: {architecture}\n"
        f"Section: {table['section']}\n"
        f"Priority: {table['priority']}\n"
        f"Maintainer: {table['maintainer']}\n"
        f"Depends: {depends}\n"
        f"Description: {package['description'].split(':')[0]}\n{description}"
    )
    (control / "conffiles").write_text("".join(f"{name}\n" for name in table["conf-files"]))
    for name in SCRIPTS:
        script = HOME / table["maintainer-scripts"] / name
        if script.exists():
            shutil.copyfile(script, control / name)
            (control / name).chmod(0o755)


def main():
    binary, version, out = sys.argv[1:]
    package = tomllib.loads((HOME / "Cargo.toml").read_text())["package"]
    table = package["metadata"]["deb"]
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch, "root")
        root.mkdir(mode=0o755)
        copy_assets(table, pathlib.Path(binary), root)
        write_control(package, table, version, root)
        for directory in [path for path in root.rglob("*") if path.is_dir()]:
            directory.chmod(0o755)
        # Fast rather than small.
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


main()
