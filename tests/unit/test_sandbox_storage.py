"""storage.json as CMS sites write it, and the tools behind it."""

import errno
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox import storage
from sandbox.failure import Failure
from sandbox.transfer import Differs, Folder, Gfal, TransferError, Xrootd, adler32
from tests.unit.sandbox_kit import RESOURCES, Finished, Site, finish, manifest, of_files
from wms2.local.payload import check, make_inputs

TOOLS = RESOURCES / "tools"
LFN = "/store/unmerged/a/b.root"
SITE = "T1_DE_KIT"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def described(tmp_path: Path, *volumes: dict[str, Any]) -> storage.Storage:
    (tmp_path / "storage.json").write_text(json.dumps(volumes))
    return storage.load(SITE, {"SITECONFIG_PATH": str(tmp_path)})


def volume(*protocols: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"site": SITE, "volume": "V", "rse": SITE, "type": "DISK", "protocols": list(protocols), **changes}


def protocol(name: str, access: str, **translation: Any) -> dict[str, Any]:
    return {"protocol": name, "access": access, **translation}


def test_the_first_protocol_with_write_access_takes_the_output(tmp_path: Path) -> None:
    place = described(
        tmp_path,
        volume(
            protocol("xrootd", "global-ro", prefix="root://redirector.example/"),
            protocol("WebDAV", "global-rw", prefix="davs://door.example:2880/cms"),
            protocol("XRootD", "site-rw", prefix="root://door.example/"),
        ),
    )
    assert place.for_writing(LFN).pfn == f"davs://door.example:2880/cms{LFN}"
    assert isinstance(place.for_writing(LFN).transfer, Gfal)
    assert place.for_reading(LFN).pfn == f"root://redirector.example/{LFN}"
    assert isinstance(place.for_reading(LFN).transfer, Xrootd)


def test_rules_translate_and_the_first_that_matches_holds(tmp_path: Path) -> None:
    rules = [
        {"lfn": "/+store/temp/(.*)", "pfn": "root://scratch.example//temp/$1"},
        {"lfn": "/+store/(.*)", "pfn": "root://disk.example//pnfs/cms/store/$1"},
    ]
    place = described(tmp_path, volume(protocol("XRootD", "global-rw", rules=rules)))
    assert place.for_writing("/store/temp/x.root").pfn == "root://scratch.example//temp/x.root"
    assert place.for_writing(LFN).pfn == f"root://disk.example//pnfs/cms{LFN}"


def test_a_chained_rule_builds_on_another_protocol(tmp_path: Path) -> None:
    pnfs = protocol("pnfs", "virtual", rules=[{"lfn": "/+store/(.*)", "pfn": "/pnfs/kit/disk/$1"}])
    dav = protocol(
        "WebDAV", "global-rw", rules=[{"lfn": "(.*)", "pfn": "davs://kit.example:2880$1", "chain": "pnfs"}]
    )
    place = described(tmp_path, volume(pnfs, dav))
    assert place.for_writing(LFN).pfn == "davs://kit.example:2880/pnfs/kit/disk/unmerged/a/b.root"


def test_a_chain_that_bites_its_tail_is_no_endless_loop(tmp_path: Path) -> None:
    rules = [{"lfn": "(.*)", "pfn": "/x$1", "chain": "a"}]
    with pytest.raises(Failure) as failure:
        described(tmp_path, volume(protocol("a", "site-rw", rules=rules)))
    assert failure.value.code == 60315


def test_tape_and_other_sites_are_never_written_to(tmp_path: Path) -> None:
    local = protocol("file", "site-rw", prefix="/right")
    wrong = protocol("file", "site-rw", prefix="/wrong")
    place = described(
        tmp_path, volume(wrong, type="TAPE"), volume(wrong, site="T2_DE_DESY"), volume(local, volume="Disk")
    )
    assert place.for_writing(LFN).pfn == f"/right{LFN}"


@pytest.mark.parametrize(
    "content",
    ["", "{torn", "{}", "[]", "[1]", '[{"site": "T1_DE_KIT"}]', '[{"site": "T1_DE_KIT", "protocols": [{}]}]'],
)
def test_a_useless_storage_json_is_the_sites_failure(tmp_path: Path, content: str) -> None:
    (tmp_path / "storage.json").write_text(content)
    with pytest.raises(Failure) as failure:
        storage.load(SITE, {"SITECONFIG_PATH": str(tmp_path)})
    assert failure.value.code == 60315


def test_a_folder_gets_a_whole_file_or_none(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(b"events" * 1000)
    Folder().put(source, f"file:{target}", adler32(source))
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(Differs):
        Folder().put(source, str(tmp_path / "other"), "00000000")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "source"]


class Shaky(Folder):
    """A mounted storage on which copies fail in the middle, as often as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.copies = 0

    def _copy_out(self, source: Path, target: Path, checksum: str) -> None:
        self.copies += 1
        if self.errors:
            raise self.errors.pop(0)
        super()._copy_out(source, target, checksum)


@pytest.mark.parametrize(
    ("errors", "copies", "arrives"),
    [
        ([OSError(errno.ESTALE, "stale file handle")], 2, True),
        ([Differs("torn"), OSError(errno.EIO, "input/output error")], 3, True),
        ([Differs("torn")] * 3, 3, False),
        ([OSError(errno.EIO, "input/output error")] * 3, 3, False),
        ([OSError(errno.ENOSPC, "no space left on device")], 1, False),
    ],
)
def test_a_mounted_storage_gets_three_chances_where_another_may_help(
    tmp_path: Path, errors: list[Exception], copies: int, arrives: bool
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"events" * 1000)
    folder = Shaky(*errors)
    if arrives:
        folder.put(source, str(tmp_path / "target"), adler32(source))
    else:
        with pytest.raises(TransferError):
            folder.put(source, str(tmp_path / "target"), adler32(source))
    assert (folder.copies, (tmp_path / "target").exists()) == (copies, arrives)


def test_removing_a_file_takes_what_a_killed_copy_left_of_it_as_well(tmp_path: Path) -> None:
    (tmp_path / ".a.root.part").write_bytes(b"half")
    Folder().remove(str(tmp_path / "a.root"))
    assert list(tmp_path.iterdir()) == []


class Remote:
    """A storage behind the stand-in tools."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "remote"
        self.root.mkdir()
        self.log = folder / "calls.jsonl"
        self.environment = {
            "PATH": f"{TOOLS}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "STANDIN_STORAGE": str(self.root),
            "STANDIN_LOG": str(self.log),
        }
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        self.source = folder / "output.root"
        self.source.write_bytes(b"events" * 1000)
        self.checksum = adler32(self.source)

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    return Remote(tmp_path, monkeypatch)


ADDRESSES = {
    "xrootd": (Xrootd, "root://door.example:1094//store/a.root"),
    "gfal": (Gfal, "davs://door.example/store/a.root"),
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_remote_storage_takes_gives_and_removes_a_file(remote: Remote, tmp_path: Path, kind: str) -> None:
    make, address = ADDRESSES[kind]
    transfer = make(pause_sec=0)
    transfer.put(remote.source, address, remote.checksum)
    assert (remote.root / "store/a.root").read_bytes() == remote.source.read_bytes()
    transfer.fetch(address, tmp_path / "back.root")
    assert adler32(tmp_path / "back.root") == remote.checksum
    transfer.remove(address)
    transfer.remove(address)
    assert not (remote.root / "store/a.root").exists()
    with pytest.raises(TransferError):
        transfer.fetch(address, tmp_path / "again.root")


def test_xrootd_is_called_as_its_manual_says(remote: Remote) -> None:
    Xrootd(pause_sec=0).put(remote.source, "root://door.example:1094//store/a.root", remote.checksum)
    copy, stat = remote.calls()
    assert copy[:-2] == ["xrdcp", "--force", "--nopbar", "--cksum", f"adler32:{remote.checksum}"]
    assert copy[-2:] == [str(remote.source), "root://door.example:1094//store/a.root"]
    assert stat == ["xrdfs", "door.example:1094", "stat", "/store/a.root"]


def test_gfal_is_called_as_its_manual_says(remote: Remote) -> None:
    Gfal(pause_sec=0).put(remote.source, "davs://door.example/store/a.root", remote.checksum)
    copy, stat = remote.calls()
    assert copy[:3] == ["gfal-copy", "-f", "-p"]
    assert copy[-4:] == [
        "-K",
        f"ADLER32:{remote.checksum}",
        f"file://{remote.source}",
        "davs://door.example/store/a.root",
    ]
    assert stat[0] == "gfal-stat"


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_remote_storage_gets_three_chances(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make, address = ADDRESSES[kind]
    program = {"xrootd": "xrdcp", "gfal": "gfal-copy"}[kind]
    monkeypatch.setenv("STANDIN_FAIL", f"{program}:2")
    make(pause_sec=0).put(remote.source, address, remote.checksum)
    assert [call[0] for call in remote.calls()].count(program) == 3
    monkeypatch.setenv("STANDIN_FAIL", program)
    with pytest.raises(TransferError):
        make(pause_sec=0).put(remote.source, address, remote.checksum)


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_copy_that_arrives_damaged_does_not_stay(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    make, address = ADDRESSES[kind]
    monkeypatch.setenv("STANDIN_FAIL", "corrupt")
    with pytest.raises(TransferError):
        make(pause_sec=0).put(remote.source, address, remote.checksum)
    assert not (remote.root / "store/a.root").exists()


def test_a_missing_program_is_a_failed_transfer(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TransferError, match="cannot be started"):
        Xrootd(pause_sec=0).put(remote.source, "root://door.example//store/a.root", remote.checksum)


def test_a_whole_job_runs_against_a_remote_storage(site: Site, remote: Remote) -> None:
    site.describe([{"protocol": "XRootD", "access": "global-rw", "prefix": "root://door.example/"}])
    files = make_inputs(site.folder, 1, 50, locations=["remote"])
    job = site.process(manifest(nodes={"proc_000001": of_files(files)}), **remote.environment)
    assert job.status == 0, job.stderr
    [entry] = job.report["outputs"]
    found = check([Path(f"{remote.root}{entry['lfn']}")])
    assert (found.events, found.duplicates) == (50, 0)
    assert job.report["inputs"] == [{"lfn": files[0]["lfn"], "events_read": 50}]


def test_a_job_whose_input_does_not_come_ends_in_time_to_report_it(site: Site, remote: Remote) -> None:
    site.describe([{"protocol": "XRootD", "access": "global-rw", "prefix": "root://door.example/"}])
    tools = site.folder / "tools"
    tools.mkdir()
    (tools / "xrdcp").write_text("#!/bin/sh\nexec sleep 600\n")
    (tools / "xrdcp").chmod(0o755)
    (site.folder / "job.ad").write_text("MaxWallTimeMins = 0.03\n")
    files = make_inputs(site.folder, 1, 50, locations=["remote"])
    environment = {**remote.environment, "PATH": f"{tools}:{remote.environment['PATH']}"}
    environment["_CONDOR_JOB_AD"] = str(site.folder / "job.ad")
    job = site.process(manifest(nodes={"proc_000001": of_files(files)}), **environment)
    assert (job.report["exit_code"], job.report["steps"]) == (50664, [])
    assert job.report["exit_message"].startswith("wall time: the job may run for 2 s")


def test_a_job_killed_while_it_copies_ends_the_copy_and_takes_it_back(site: Site, remote: Remote) -> None:
    job = _killed_while_copying(site, remote, signal.SIGTERM)
    assert (job.report["exit_code"], job.report["left"], job.report["outputs"]) == (50669, [], [])
    assert remote.calls()[-1][:3] == ["xrdfs", "door.example", "rm"]


def test_a_job_killed_outright_while_it_copies_has_named_what_it_may_have_left(
    site: Site, remote: Remote
) -> None:
    job = _killed_while_copying(site, remote, signal.SIGKILL)
    assert job.report["exit_code"] == 50669
    [left] = job.report["left"]
    assert left["lfn"].endswith("_proc_000001_1234_RAWSIMoutput.root")


def _killed_while_copying(site: Site, remote: Remote, number: signal.Signals) -> Finished:
    site.describe([{"protocol": "XRootD", "access": "global-rw", "prefix": "root://door.example/"}])
    tools = site.folder / "tools"
    tools.mkdir()
    (tools / "xrdcp").write_text(f"#!/bin/sh\necho $$ > {tools}/pid\nexec sleep 60\n")
    (tools / "xrdcp").chmod(0o755)
    folder = site.job_folder(manifest=manifest())
    environment = {**remote.environment, "PATH": f"{tools}:{remote.environment['PATH']}"}
    child = site.start("process", "proc_000001", folder, **environment)
    while not (tools / "pid").exists() or not (tools / "pid").read_text():
        assert child.poll() is None
        time.sleep(0.02)
    copying = int((tools / "pid").read_text())
    child.send_signal(number)
    if number == signal.SIGKILL:
        os.kill(copying, signal.SIGKILL)
    job = finish(child, folder)
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(copying)
    return job


def _wait_until_gone(pid: int) -> None:
    for _ in range(500):
        os.kill(pid, 0)
        time.sleep(0.02)
