"""Jobs carry a proxy and a token; and DAGs are not submitted with old ones."""

import base64
import json
import subprocess
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.integration.rounds import Round, small_simulation, unique
from tests.wire import made_certificates
from wms2.activities.credentials import refresh_credentials
from wms2.adapters.job_credentials import job_credentials_of
from wms2.config import Settings
from wms2.db import notices
from wms2.db.session import transaction
from wms2.errors import Unavailable
from wms2.models.contacts import Contacts
from wms2.models.progress import DagOutcome

pytestmark = pytest.mark.pool


def write_token(path: Path, hours: float) -> None:
    claims = json.dumps({"exp": int(time.time() + 3600 * hours)}).encode()
    path.write_bytes(b"e30." + base64.urlsafe_b64encode(claims).rstrip(b"=") + b".s")


@pytest.fixture
def carrying(stack: Settings, tmp_path: Path) -> Settings:
    made_certificates(tmp_path, "job")
    write_token(tmp_path / "token", hours=24)
    # With a place of its own for the copies, because other tests write theirs.
    return stack.model_copy(
        update={
            "job_proxy": tmp_path / "job.proxy",
            "job_token": tmp_path / "token",
            "submit_root": stack.home / unique("carried"),
        }
    )


async def test_jobs_carry_the_proxy_and_the_token_that_are_configured(
    carrying: Settings,
) -> None:
    round_ = Round(carrying, small_simulation(carrying, "carried", total_events=20))
    assert (await round_.run()).outcome is DagOutcome.COMPLETED
    which = f'CMS_RequestName == "{round_.request.request_name}" && CMS_NodeRole =!= "Landing"'
    said = subprocess.run(
        ["condor_history", "-constraint", which, "-af", "x509UserProxySubject", "x509userproxy", "TransferInput"],
        env=carrying.condor_environment(), capture_output=True, check=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    assert said
    for line in said:
        assert "/CN=job" in line
        assert f"{carrying.submit_root}/.credentials/job.proxy" in line
        assert line.endswith(f",{carrying.submit_root}/.credentials/job.token")


async def test_nothing_is_submitted_with_a_token_that_is_almost_over_and_then_with_its_renewal(
    carrying: Settings,
) -> None:
    assert carrying.job_token
    write_token(carrying.job_token, hours=1.5)
    round_ = Round(carrying, small_simulation(carrying, "late", total_events=20))
    with pytest.raises(Unavailable, match=r"ends in 1 h .*nothing is submitted"):
        await round_.start()
    assert await round_.condor.queued_attempts(round_.request.request_name, 0) == {}
    write_token(carrying.job_token, hours=24)
    dag = await round_.start()
    assert not dag.found
    await round_.activities.stop_dag(dag, "the test is over")


def test_operators_hear_of_a_credential_that_is_not_renewed_once_a_day(
    carrying: Settings, engine: Engine
) -> None:
    assert carrying.job_token
    write_token(carrying.job_token, hours=11)
    told = notices.telling(engine, Contacts(operators=("ops@example.org",)))
    credentials = job_credentials_of(carrying)
    assert credentials
    for _ in range(2):
        refresh_credentials(credentials, told, "here")
    with transaction(told) as session:
        (notice,) = notices.list_notices(session)
    assert (notice.reason, notice.about) == (
        "credential",
        f"the token of jobs from {carrying.job_token} on here",
    )
    assert notice.words.startswith("ends in 10 h ")
