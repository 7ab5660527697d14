"""Makes the archive of the chart for Helm, and says if its versions are not those of the workspace."""

import argparse
import gzip
import io
import pathlib
import re
import tarfile

import release
from release import CHECKOUT

CHART = CHECKOUT / "packaging/helm/antiphase"
# Python that the chart's controller and exporter run, from the one place where it is.
PROGRAMS = ("clients/python/antiphase", "integrations/kubernetes/antiphase_kubernetes")
# What the chart's configuration of kube-scheduler is made of.
SCHEDULER = CHECKOUT / "integrations/kubernetes/scheduler.yaml"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("into", type=pathlib.Path, help="folder for the archive")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    told = re.findall(r'^(?:version|appVersion): "?([0-9.]+)"?$', (CHART / "Chart.yaml").read_text(), re.MULTILINE)
    if told != [release.version()] * 2:
        raise SystemExit("packages: Chart.yaml says %s, the workspace %s" % (told, release.version()))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        files = {str(path.relative_to(CHART)): path for path in CHART.rglob("*") if path.is_file()}
        files["files/scheduler.yaml"] = SCHEDULER
        for folder in PROGRAMS:
            files.update(("files/%s/%s" % (path.parent.name, path.name), path) for path in (CHECKOUT / folder).glob("*.py"))
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo("antiphase/%s" % name)
            data = path.read_bytes()
            entry.size, entry.mode, entry.mtime = len(data), 0o644, release.epoch()
            archive.addfile(entry, io.BytesIO(data))
    target = arguments.into / ("antiphase-%s.tgz" % release.version())
    target.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))
    print(target)


if __name__ == "__main__":
    main()
