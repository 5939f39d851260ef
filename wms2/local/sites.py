"""The sites of the local stack: a storage folder each, and the site configuration that jobs read."""

import json
from collections.abc import Iterable
from pathlib import Path

SITES = ("T1_US_FNAL", "T2_US_Purdue", "T2_DE_DESY", "T2_CH_CERN")


def siteconf_root(home: Path) -> Path:
    return home / "siteconf"


def storage_folder(home: Path, site: str) -> Path:
    """Where the site keeps its files: the path of a file is this folder followed by its LFN."""
    return home / "storage" / site


def storage_description(home: Path, site: str) -> list[dict[str, object]]:
    """The site's storage.json, in the form that CMS sites publish it."""
    protocol = {"protocol": "file", "access": "site-rw", "prefix": str(storage_folder(home, site))}
    return [{"site": site, "volume": "Local", "rse": site, "type": "DISK", "protocols": [protocol]}]


def write_sites(home: Path, sites: Iterable[str]) -> None:
    for site in sites:
        storage_folder(home, site).mkdir(parents=True, exist_ok=True)
        folder = siteconf_root(home) / site
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(storage_description(home, site), indent=1)
        (folder / "storage.json").write_text(text + "\n", encoding="utf-8")
