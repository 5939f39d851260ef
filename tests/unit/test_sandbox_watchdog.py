"""When a step is ended, and above all when it is not: the pure decision, what it is fed with, and the real payload."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import limits, usage
from sandbox.limits import Limits
from sandbox.watchdog import LEAST_CPU_SHARE, MIB, Sample, Verdict, Watchdog
from tests.unit.sandbox_kit import REPOSITORY, Finished, Site, finish, manifest, step

MEMORY, DISK, WALL, LOOPING = 50660, 50662, 50664, 50665
STALL_SEC = 60.0
NOT_WRITTEN = (1, 1, 1)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def sample(watched_sec: float = 10.0, **changes: Any) -> Sample:
    """A look at one process that does nothing."""
    return Sample(
        **{
            "now": 0.0,
            "watched_sec": watched_sec,
            "memory_bytes": 0,
            "disk_bytes": 0,
            "cpu_sec": {(1, 1): 0.0},
            "written": NOT_WRITTEN,
            **changes,
        }
    )


def verdicts(watchdog: Watchdog, samples: Iterable[Sample]) -> list[Verdict]:
    return [verdict for verdict in map(watchdog.judge, samples) if verdict]


pauses = st.lists(st.floats(0.2, 20), min_size=1, max_size=100)


@given(pauses=pauses)
def test_a_step_that_uses_some_cpu_is_never_ended(pauses: list[float]) -> None:
    used, samples = 0.0, []
    for pause in pauses:
        used += pause * LEAST_CPU_SHARE * 1.01
        samples.append(sample(pause, cpu_sec={(1, 1): used}))
    assert verdicts(Watchdog(Limits(), STALL_SEC), samples) == []


@given(pauses=pauses, steady=st.booleans())
def test_a_step_that_sleeps_but_writes_is_never_ended(pauses: list[float], steady: bool) -> None:
    """However little it writes: a file that keeps its size has a new time of its last change."""
    samples = [
        sample(pause, written=(1 if steady else number, number, 1)) for number, pause in enumerate(pauses)
    ]
    assert verdicts(Watchdog(Limits(), STALL_SEC, silent_sec=25), samples) == []


@given(pauses=pauses)
def test_a_step_that_does_nothing_is_ended_when_it_was_watched_for_so_long_and_no_sooner(
    pauses: list[float],
) -> None:
    found = Watchdog(Limits(), STALL_SEC)
    watched = 0.0
    for pause in pauses:
        verdict = found.judge(sample(pause))
        watched += pause
        assert (verdict is not None) == (watched >= STALL_SEC)
        if verdict:
            assert verdict.code == LOOPING
            assert verdict.message.startswith("looping: the step used 0.0 s of CPU and wrote nothing for")
            return


@given(pauses=pauses)
def test_the_work_of_short_lived_processes_counts(pauses: list[float]) -> None:
    """Each look finds another process, whose time nobody adds up after it has ended."""
    samples = [
        sample(pause, cpu_sec={(1, 1): 0.0, (number + 2, number): pause * LEAST_CPU_SHARE * 1.01})
        for number, pause in enumerate(pauses)
    ]
    assert verdicts(Watchdog(Limits(), STALL_SEC), samples) == []


def test_a_job_that_was_suspended_with_its_wrapper_is_not_ended() -> None:
    """A day has passed, of which it was watched for a few seconds."""
    watchdog = Watchdog(Limits(), STALL_SEC)
    assert verdicts(watchdog, [sample(10), sample(20, now=86400.0), sample(10, now=86410.0)]) == []


@given(over=st.lists(st.booleans(), min_size=1, max_size=50), kind=st.sampled_from(["memory", "disk"]))
def test_a_single_look_above_a_limit_never_ends_a_step(over: list[bool], kind: str) -> None:
    """A process that forks while it is looked at is counted twice, once."""
    watchdog = Watchdog(Limits(memory_bytes=100 * MIB, disk_bytes=100 * MIB), stall_sec=1e9)
    before = False
    for above in over:
        verdict = watchdog.judge(sample(**{f"{kind}_bytes": 101 * MIB if above else 100 * MIB}))
        assert (verdict is not None) == (above and before)
        before = above


def test_a_verdict_names_what_was_measured_and_the_limit() -> None:
    watchdog = Watchdog(Limits(1000 * MIB, 20 * MIB, 3600, started=0.0), stall_sec=1e9)
    above = [sample(memory_bytes=1100 * MIB)] * 2 + [sample(disk_bytes=20.5 * MIB)] * 2
    found = verdicts(watchdog, [*above, sample(now=3600), sample(now=3601)])
    assert found == [
        Verdict(MEMORY, "memory: 1100 MiB are above the job's limit of 1000 MiB"),
        Verdict(DISK, "disk: 20.5 MiB in the job's folder are above its limit of 20.0 MiB"),
        Verdict(
            WALL,
            "wall time: the job has run for 3601 s, and may run for 3600 s before its report must be sent",
        ),
    ]


def test_silence_ends_only_a_step_that_asked_for_it() -> None:
    busy = [sample(10, cpu_sec={(1, 1): 10.0 * number}) for number in range(20)]
    assert verdicts(Watchdog(Limits(), STALL_SEC), busy) == []
    found = verdicts(Watchdog(Limits(), STALL_SEC, silent_sec=100), busy)
    assert found[0].code == LOOPING
    assert "computed but wrote nothing for 100 s" in found[0].message


def test_limits_are_what_the_job_asked_for(tmp_path: Path) -> None:
    ad = tmp_path / ".job.ad"
    ad.write_text(
        'Cmd = "RequestMemory = 1"\nrequestmemory = 2000\nRequestDisk=1000000\nMaxWallTimeMins = 30\n'
    )
    found = limits.load({"_CONDOR_JOB_AD": str(ad)})
    assert (found.memory_bytes, found.disk_bytes) == (2000 * MIB, 1_000_000 * 1024)
    assert found.wall_sec == 27 * 60, "time is left to send the report"
    assert 27 * 60 - 60 < found.seconds_left() <= 27 * 60


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RequestMemory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage, 1)\n",
        "RequestMemory = undefined\nRequestDisk = DiskUsage\n",
        "RequestMemory = 0\nRequestDisk = -1\nMaxWallTimeMins = 0\n",
        "\udcff\n",
    ],
)
def test_what_is_no_plain_number_is_no_limit(tmp_path: Path, text: str) -> None:
    ad = tmp_path / ".job.ad"
    ad.write_text(text, errors="surrogateescape")
    for environment in ({"_CONDOR_JOB_AD": str(ad)}, {"_CONDOR_JOB_AD": str(tmp_path)}, {}):
        found = limits.load(environment)
        assert (found.memory_bytes, found.disk_bytes, found.wall_sec) == (None, None, None)
        assert found.seconds_left() == float("inf")


def test_memory_that_processes_share_counts_once() -> None:
    program = (
        "import os, sys, time\n"
        "taken = b'x' * 200_000_000\n"
        "for _ in range(3):\n"
        "    if not os.fork():\n"
        "        break\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        for _ in range(4):
            child.stdout.readline()
        family = [child.pid, *usage.descendants(child.pid)]
        assert len(family) == 4
        assert usage.of_processes(family).rss_bytes > 700_000_000
        assert 200_000_000 < usage.memory(family) < 350_000_000
    finally:
        for pid in [*usage.descendants(child.pid), child.pid]:
            os.kill(pid, 9)
        child.communicate()


def test_processes_that_vanish_while_they_are_read_count_as_gone() -> None:
    """Many come and go at once, and one whose number is long gone is asked for as well."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for _ in range(20):
        children = [subprocess.Popen(["true"]) for _ in range(10)]
        pids = [gone.pid, *usage.descendants(os.getpid())]
        assert usage.of_processes(pids).rss_bytes >= 0
        assert usage.memory(pids) >= 0
        for child in children:
            child.wait()
    assert usage.of_processes([gone.pid]) == usage.ProcessUse(0, {})
    assert usage.memory([gone.pid]) == 0


def test_the_size_of_a_folder_is_what_it_takes_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "deep" / "one", tmp_path / "second_name")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", 10**12)
    assert 100_000 <= usage.of_folder(tmp_path).bytes < 200_000
    assert usage.of_folder(tmp_path / "nowhere").bytes == 0


def test_anything_written_below_a_folder_changes_its_mark(tmp_path: Path) -> None:
    marks = [usage.of_folder(tmp_path).mark]
    file = tmp_path / "file"
    for data in (b"", b"a", b"b", b"ab"):
        file.write_bytes(data)
        os.utime(file, ns=(len(marks), len(marks)))
        marks.append(usage.of_folder(tmp_path).mark)
    file.unlink()
    marks.append(usage.of_folder(tmp_path).mark)
    assert all(before != after for before, after in itertools.pairwise(marks))


def limited(site: Site, **attributes: float) -> dict[str, str]:
    ad = site.folder / "job.ad"
    ad.write_text("".join(f"{name} = {value}\n" for name, value in attributes.items()))
    return {"_CONDOR_JOB_AD": str(ad)}


def failing(site: Site, fault: dict[str, Any], environment: dict[str, str], **fields: Any) -> Finished:
    return site.process(manifest(steps=[{**step(faults=[fault]), **fields}]), **environment)


def test_a_step_that_eats_memory_is_ended_with_its_own_code(site: Site) -> None:
    job = failing(site, {"eat_memory_mb": 600}, limited(site, RequestMemory=400))
    assert (job.report["exit_code"], job.fjr_code, job.report["failed_step"]) == (MEMORY, MEMORY, "GEN")
    assert job.report["exit_message"].startswith("memory: ")
    assert job.report["exit_message"].endswith("above the job's limit of 400 MiB")
    assert job.report["peak_rss_mb"] > 400
    assert site.files() == []


def test_a_step_that_fills_the_disk_is_ended_with_its_own_code(site: Site) -> None:
    job = failing(site, {"fill_disk_mb": 30}, limited(site, RequestDisk=20 * 1024))
    assert (job.report["exit_code"], job.fjr_code) == (DISK, DISK)
    assert job.report["exit_message"].endswith("above its limit of 20.0 MiB")


def test_a_step_that_computes_for_ever_is_ended_by_the_time_limit(site: Site) -> None:
    job = failing(site, {"spin": True}, limited(site, MaxWallTimeMins=0.05), stall_sec=1)
    assert (job.report["exit_code"], job.fjr_code) == (WALL, WALL)
    assert "may run for 3 s" in job.report["exit_message"]
    assert job.report["cpu_sec"] > 0


def test_a_step_that_computes_and_must_not_be_silent_is_looping(site: Site) -> None:
    job = failing(site, {"spin": True}, {}, silent_sec=1)
    assert (job.report["exit_code"], job.fjr_code) == (LOOPING, LOOPING)
    assert job.report["exit_message"].startswith("looping: the step computed but wrote nothing")


def test_a_step_that_hangs_is_looping(site: Site) -> None:
    job = failing(site, {"hang": True}, {}, stall_sec=1)
    assert (job.report["exit_code"], job.report["failed_step"]) == (LOOPING, "GEN")
    assert job.report["exit_message"].startswith("looping: the step used ")


def test_a_step_within_its_limits_is_left_alone(site: Site) -> None:
    within = limited(site, RequestMemory=1000, RequestDisk=100_000, MaxWallTimeMins=30)
    steps = [step("GEN", memory_mb=200, cpu_seconds_per_event=0.005, startup_sec=0.5), step("RECO")]
    job = site.process(manifest(steps=steps), **within)
    assert (job.status, [item["runs"] for item in job.report["steps"]]) == (0, [1, 1])


def test_a_step_that_hears_nothing_is_killed_after_the_grace(site: Site) -> None:
    """It ignores SIGUSR2 and SIGTERM; the wrapper here waits for a tenth of a second instead of ten."""
    plan = manifest(steps=[{**step(faults=[{"hang": True, "deaf": True}]), "stall_sec": 1}])
    folder = site.job_folder(manifest=plan)
    program = "from sandbox import __main__, process; process.GRACE_SEC = 0.1; __main__.main()"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", program, "process", "proc_000001"],
        cwd=folder,
        env={**site.environment(1), "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert finish(child, folder).report["exit_code"] == LOOPING


def script(site: Site, text: str) -> dict[str, str]:
    """Put a shell script where the payload's Python is; it ends with the real payload."""
    path = site.folder / "python"
    path.write_text(f'#!/bin/bash\n{text}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return {"WMS2_SOFTWARE_PYTHON": str(path)}


def test_the_work_of_a_daemon_counts(site: Site) -> None:
    """The step itself sleeps for three times its limit; what it started in a session of its own computes."""
    busy = "setsid bash -c 'while :; do :; done' &\ndisown\nsleep 3"
    job = site.process(manifest(steps=[{**step(), "stall_sec": 1}]), **script(site, busy))
    assert job.status == 0, job.report["exit_message"]


def test_the_memory_of_a_daemon_counts(site: Site) -> None:
    eats = "import time; taken = b'x' * 600_000_000; time.sleep(600)"
    environment = script(site, f'(setsid {sys.executable} -c "{eats}" &)\nsleep 600')
    job = site.process(manifest(), **environment, **limited(site, RequestMemory=400))
    assert job.report["exit_code"] == MEMORY


def test_a_family_that_shares_its_memory_is_left_alone(site: Site) -> None:
    """Four processes of 200 MB each to their own account, and 200 MB in all."""
    program = (
        "import os, time; taken = b'x' * 200_000_000; children = [os.fork() for _ in range(2)]; time.sleep(2)"
    )
    environment = script(site, f'{sys.executable} -c "{program}"')
    job = site.process(manifest(), **environment, **limited(site, RequestMemory=500))
    assert job.status == 0, job.report["exit_message"]
    assert job.report["peak_rss_mb"] > 700


def test_a_step_that_sleeps_but_writes_now_and_then_is_left_alone(site: Site) -> None:
    """Eight lines within eight seconds, and a limit of four."""
    environment = script(site, "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 1; done")
    started = time.monotonic()
    job = site.process(manifest(steps=[{**step(), "stall_sec": 4}]), **environment)
    assert job.status == 0, job.report["exit_message"]
    assert time.monotonic() - started > 8
