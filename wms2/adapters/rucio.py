"""Rucio, which knows where data is and where it must be."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, Literal, TypeVar
from urllib.parse import quote_plus

import httpx
from pydantic import TypeAdapter

from wms2.adapters.credentials import Certificate, Password, TokenFile
from wms2.adapters.limits import RateLimit
from wms2.adapters.parallel import in_order
from wms2.adapters.rucio_login import TOKEN, AuthServer, TokenLogin
from wms2.adapters.service import Answer, BearerLogin, Service, TimeLimits
from wms2.errors import AlreadyThere, BrokenRequest, NotFound, Refused, Unauthorised, Unavailable
from wms2.models.rule import Replica, Rule
from wms2.patterns import SITE_NAME

SCOPE = "cms"
CALLS_AT_ONCE = 4
# Rucio takes a thousand names in a call.
BLOCKS_PER_CALL = 500
FILES_PER_CALL = 500
ACCEPT = {"Accept": "application/x-json-stream, application/json"}
RULE_ID = re.compile(r"[0-9a-f]{32}")
ON_DISK = "_Disk"
NOT_FOR_JOBS = ("_Tape", "_Test", "_Temp", "_Buffer", "_Export", "_MSS")
EXCEPTIONS: Mapping[str, type[Exception]] = {
    "AccessDenied": Unauthorised,
    "AccountNotFound": NotFound,
    "CannotAuthenticate": Unauthorised,
    "DataIdentifierAlreadyExists": AlreadyThere,
    "DataIdentifierNotFound": NotFound,
    "DatabaseException": Unavailable,
    "DuplicateContent": AlreadyThere,
    "DuplicateRule": AlreadyThere,
    "FileAlreadyExists": AlreadyThere,
    "FileConsistencyMismatch": Refused,
    "InputValidationError": BrokenRequest,
    "InsufficientAccountLimit": Refused,
    "InsufficientTargetRSEs": Refused,
    "InvalidObject": BrokenRequest,
    "InvalidRSEExpression": BrokenRequest,
    "InvalidReplicationRule": BrokenRequest,
    "RSENotFound": NotFound,
    "RSEWriteBlocked": Unavailable,
    "ReplicationRuleCreationTemporaryFailed": Unavailable,
    "ResourceTemporaryUnavailable": Unavailable,
    "RuleNotFound": NotFound,
    "ScopeNotFound": NotFound,
    "ServiceUnavailable": Unavailable,
    "UnsupportedOperation": Refused,
}
"""What Rucio's own exceptions mean. Their HTTP status says less: a wrong checksum is a 500 here and a 412 there."""

T = TypeVar("T")


@dataclass(slots=True)
class _BlockReplica:
    name: str
    rse: str
    state: str


@dataclass(slots=True)
class _Content:
    name: str
    type: str


@dataclass(slots=True)
class _File:
    name: str
    bytes: int
    adler32: str | None


@dataclass(slots=True)
class _FilePlaces:
    name: str
    states: dict[str, str]


@dataclass(slots=True)
class _Rule:
    id: str
    name: str
    account: str
    rse_expression: str
    copies: int
    state: str
    locks_ok_cnt: int
    locks_replicating_cnt: int
    locks_stuck_cnt: int
    error: str | None = None
    expires_at: str | None = None
    comments: str | None = None


@dataclass(slots=True)
class _Lock:
    name: str
    state: str


@dataclass(slots=True)
class _Did:
    open: bool | None


@dataclass(slots=True)
class _Rse:
    rse: str


_BLOCK_REPLICAS = TypeAdapter(list[_BlockReplica])
_CONTENT = TypeAdapter(list[_Content])
_FILES = TypeAdapter(list[_File])
_FILE_PLACES = TypeAdapter(list[_FilePlaces])
_RULE, _RULES = TypeAdapter(_Rule), TypeAdapter(list[_Rule])
_LOCKS = TypeAdapter(list[_Lock])
_DID = TypeAdapter(_Did)
_RSES = TypeAdapter(list[_Rse])
_IDS = TypeAdapter(list[str])


def site_of(rse: str) -> str | None:
    """The site whose jobs read from this storage, or None where jobs do not read: tapes, tests, temporary areas."""
    if rse.endswith(NOT_FOR_JOBS):
        return None
    site = rse.removesuffix(ON_DISK)
    return site if SITE_NAME.fullmatch(site) else None


class Rucio(Service):
    """A Rucio server, and the one where its tokens are made if that is another.

    Whatever changes something may be done again, and gives the same again.
    """

    name = "Rucio"

    def __init__(
        self,
        url: str,
        account: str,
        login: Password | Certificate | TokenFile,
        auth_url: str | None = None,
        limit: RateLimit | None = None,
        times: TimeLimits | None = None,
    ) -> None:
        super().__init__(url, limit=limit, times=times)
        self.account = account
        self._disks: dict[str, str] = {}
        self._auth: AuthServer | None = None
        if isinstance(login, TokenFile):
            self._login = BearerLogin(login, header=TOKEN, prefix="")
        else:
            self._auth = AuthServer(auth_url or url, account, login, times)
            self._login = TokenLogin(self._auth)

    async def close(self) -> None:
        await super().close()
        if self._auth is not None:
            await self._auth.close()

    async def block_sites(self, blocks: Iterable[str], scope: str = SCOPE) -> dict[str, tuple[str, ...]]:
        """The sites that have all files of a block on disk, for each of the blocks; none for one that is unknown."""
        names = sorted(set(blocks))
        found: dict[str, set[str]] = {name: set() for name in names}

        async def counted(batch: Sequence[str]) -> list[_BlockReplica]:
            asked = {"dids": [_did(name, scope) for name in batch]}
            return await self.objects(
                _BLOCK_REPLICAS, "POST", "replicas/datasets_bulk", json=asked, headers=ACCEPT
            )

        async def looked_at(name: str) -> list[_BlockReplica]:
            path = f"replicas/{quote_plus(scope)}/{quote_plus(name)}/datasets"
            return await self.objects(_BLOCK_REPLICAS, "GET", path, params={"deep": "True"}, headers=ACCEPT)

        async with aclosing(in_order(counted, _batches(names, BLOCKS_PER_CALL), CALLS_AT_ONCE)) as answers:
            async for _, rows in answers:
                for row in rows:
                    found[row.name] |= _sites_with_all(row)
        # A daemon of Rucio counts the files, some time after they have come: what it has nowhere is looked at.
        nowhere = [name for name in names if not found[name]]
        async with aclosing(in_order(looked_at, nowhere, CALLS_AT_ONCE)) as looks:
            async for name, rows in looks:
                found[name] = {site for row in rows for site in _sites_with_all(row)}
        return {name: tuple(sorted(sites)) for name, sites in found.items()}

    async def dataset_sites(self, datasets: Iterable[str], scope: str = SCOPE) -> dict[str, tuple[str, ...]]:
        """The sites that have every block of a dataset; none for one that is unknown or has no blocks."""
        found: dict[str, tuple[str, ...]] = {}
        for dataset in sorted(set(datasets)):
            blocks = await self._blocks_of(dataset, scope)
            sites = [set(sites) for sites in (await self.block_sites(blocks, scope)).values()]
            found[dataset] = tuple(sorted(set.intersection(*sites))) if sites else ()
        return found

    async def _blocks_of(self, dataset: str, scope: str) -> list[str]:
        try:
            rows = await self.objects(_CONTENT, "GET", f"{_path(dataset, scope)}/dids", headers=ACCEPT)
        except NotFound:
            return []
        if stranger := next((row for row in rows if row.type != "DATASET"), None):
            raise Refused(f"{dataset} holds {stranger.name}, which is no block but a {stranger.type}")
        return [row.name for row in rows]

    async def file_places(self, blocks: Iterable[str]) -> dict[str, dict[str, str]]:
        """For each file of the blocks the RSEs where it is or is to be, with its state there, such as AVAILABLE."""
        places: dict[str, dict[str, str]] = {}
        for batch in _batches(blocks, BLOCKS_PER_CALL):
            # Else Rucio sorts the places of each file by their distance, which takes most of its time.
            asked = {"dids": [_did(name) for name in batch], "all_states": True, "sort": "random"}
            listed = self.stream(_FILE_PLACES, "POST", "replicas/list", json=asked, headers=ACCEPT)
            async with aclosing(listed) as answers:
                async for rows in answers:
                    places.update((row.name, row.states) for row in rows)
        return places

    async def add_block(self, dataset: str, block: str) -> None:
        """An open block of a dataset, and the dataset if it is the first one."""
        for name, kind in ((dataset, "CONTAINER"), (block, "DATASET")):
            with suppress(AlreadyThere):
                await self.call("POST", _path(name), json={"type": kind})
        try:
            await self.call("POST", f"{_path(dataset)}/dids", json={"dids": [_did(block)]})
        except AlreadyThere:
            return
        except NotFound:
            raise
        except Refused:
            # Rucio says the same of a dataset that somebody closed, whether the block is in it or not.
            parents = await self.objects(_CONTENT, "GET", f"{_path(block)}/parents", headers=ACCEPT)
            if dataset not in {parent.name for parent in parents}:
                raise

    async def add_files(self, block: str, rse: str, files: Iterable[Replica]) -> None:
        """Say that files are at an RSE, and put them into a block.

        Refused when the block is closed and not all of them are in it, or when Rucio knows one of them with another
        size or checksum.
        """
        for batch in _batches(files, FILES_PER_CALL):
            told = [{**_did(file.lfn), "bytes": file.size_bytes, "adler32": file.adler32} for file in batch]
            # Rucio compares sizes and checksums with what it knows when it attaches files, and not here.
            await self.call("POST", "replicas", json={"rse": rse, "files": told})
            attachment = {**_did(block), "dids": told}
            try:
                await self.call(
                    "POST", "dids/attachments", json={"attachments": [attachment], "ignore_duplicate": True}
                )
            except NotFound:
                raise
            except Refused as refusal:
                if await self._holds(block, batch):
                    continue
                if isinstance(refusal, AlreadyThere):
                    # Files that are in the block are no hindrance, but who adds some at the same moment is.
                    raise Unavailable(f"Rucio at {self._url} is just adding other files to {block}") from None
                raise

    async def _holds(self, block: str, files: Sequence[Replica]) -> bool:
        missing = {(file.lfn, file.size_bytes, file.adler32) for file in files}
        async with aclosing(self.stream(_FILES, "GET", f"{_path(block)}/files", headers=ACCEPT)) as answers:
            async for rows in answers:
                missing -= {(row.name, row.bytes, row.adler32 or "") for row in rows}
        return not missing

    async def close_block(self, block: str) -> None:
        """No file is added to it any more."""
        try:
            await self.call("PUT", f"{_path(block)}/status", json={"open": False})
        except Refused:
            if (await self.document(_DID, "GET", _path(block), headers=ACCEPT)).open:
                raise

    async def add_rule(
        self,
        name: str,
        rse_expression: str,
        *,
        comment: str,
        copies: int = 1,
        grouping: Literal["ALL", "DATASET", "NONE"] = "DATASET",
        lifetime_sec: int | None = None,
        activity: str = "Production Output",
    ) -> str:
        """Hold a block or a dataset at some of these RSEs; the rule's id.

        Where this account has such a rule already, that is the one, and it lives at least as long as was asked for.
        """
        rule = {
            "dids": [_did(name)],
            "account": self.account,
            "copies": copies,
            "rse_expression": rse_expression,
            "grouping": grouping,
            "lifetime": lifetime_sec,
            "activity": activity,
            "comment": comment,
        }
        with suppress(AlreadyThere):
            return (await self.document(_IDS, "POST", "rules/", json=rule))[0]
        known = (self.account, rse_expression, copies)
        for there in await self.rules_of(name):
            if (there.account, there.rse_expression, there.copies) == known:
                await self._keep(there, lifetime_sec)
                return there.id
        raise Unavailable(
            f"Rucio at {self._url} has a rule for {name} at {rse_expression} and does not list it"
        )

    async def _keep(self, rule: Rule, lifetime_sec: int | None) -> None:
        """Let it live so long from now on: one that was deleted lives for an hour, and is in the way of a new one."""
        if rule.expires_at is None:
            return
        if lifetime_sec is None or rule.expires_at < _now() + timedelta(seconds=lifetime_sec):
            try:
                await self.call("PUT", f"rules/{rule.id}", json={"options": {"lifetime": lifetime_sec}})
            except NotFound:
                raise Unavailable(f"Rucio at {self._url} has just removed rule {rule.id}") from None

    async def rules_of(self, name: str) -> list[Rule]:
        """The rules on a block or a dataset, whoever made them; none for one that is unknown."""
        try:
            rows = await self.objects(_RULES, "GET", f"{_path(name)}/rules", headers=ACCEPT)
        except NotFound:
            return []
        return [_rule(row) for row in rows]

    async def rule(self, rule_id: str) -> Rule | None:
        try:
            return _rule(await self.document(_RULE, "GET", f"rules/{_checked_id(rule_id)}", headers=ACCEPT))
        except NotFound:
            return None

    async def held_files(self, rule_id: str) -> AsyncGenerator[str, None]:
        """The name of a file for each lock of a rule that is OK; none for a rule that is gone."""
        path = f"rules/{_checked_id(rule_id)}/locks"
        async with aclosing(self.stream(_LOCKS, "GET", path, headers=ACCEPT)) as answers:
            async for rows in answers:
                for row in rows:
                    if row.state == "OK":
                        yield row.name

    async def delete_rule(self, rule_id: str) -> None:
        """It ends an hour later. One that is gone is fine."""
        with suppress(NotFound):
            # With a body, which Rucio wants.
            await self.call("DELETE", f"rules/{_checked_id(rule_id)}", json={})

    async def set_rule_lifetime(self, rule_id: str, lifetime_sec: int) -> None:
        """Let a rule end so long from now. One that is gone is fine."""
        with suppress(NotFound):
            options = {"options": {"lifetime": lifetime_sec}}
            await self.call("PUT", f"rules/{_checked_id(rule_id)}", json=options)

    async def rses(self, expression: str) -> list[str]:
        """The RSEs that an expression names; none where it fits none."""
        if not expression:
            # Rucio would list them all.
            raise BrokenRequest("an RSE expression must not be empty")
        try:
            rows = await self.objects(
                _RSES, "GET", "rses/", params={"expression": expression}, headers=ACCEPT
            )
        except BrokenRequest as refusal:
            if "empty set" not in str(refusal):
                raise
            return []
        return sorted(row.rse for row in rows)

    async def disk_rse(self, site: str) -> str:
        """The RSE of a site's disks: sites with a tape have one of their own name and `_Disk`."""
        if site not in self._disks:
            rses = await self.rses(f"{site}{ON_DISK}|{site}")
            if not rses:
                raise NotFound(f"Rucio knows no disk of {site}: neither {site}{ON_DISK} nor {site} is an RSE")
            self._disks[site] = max(rses)
        return self._disks[site]

    def _login_expired(self, answer: httpx.Response) -> bool:
        # A 401 may also be a refusal to one who is well known.
        kind = answer.headers.get("ExceptionClass", "CannotAuthenticate")
        return super()._login_expired(answer) and kind == "CannotAuthenticate"

    def _kind(self, answer: Answer) -> type[Exception]:
        name = answer.headers.get("ExceptionClass")
        if name is None and answer.status == httpx.codes.NOT_FOUND:
            # It is not Rucio who says so: the URL is wrong, and nobody has looked.
            return Refused
        return EXCEPTIONS.get(name or "") or super()._kind(answer)

    def _reason(self, answer: Answer) -> str:
        # The header is cut short.
        with suppress(ValueError, LookupError, TypeError):
            return str(json.loads(answer.content)["ExceptionMessage"])
        return str(answer.headers.get("ExceptionMessage", ""))

    def _setting(self) -> str:
        return self._auth.setting if self._auth else "WMS2_TOKEN_FILE"


def _did(name: str, scope: str = SCOPE) -> dict[str, Any]:
    return {"scope": scope, "name": name}


def _path(name: str, scope: str = SCOPE) -> str:
    return f"dids/{quote_plus(scope)}/{quote_plus(name)}"


def _sites_with_all(row: _BlockReplica) -> set[str]:
    """The site of an RSE that has all files of a block."""
    site = site_of(row.rse)
    return {site} if site and row.state == "AVAILABLE" else set()


def _checked_id(rule_id: str) -> str:
    if not RULE_ID.fullmatch(rule_id):
        raise BrokenRequest(f"{rule_id!r} is not the id of a rule in Rucio")
    return rule_id


def _rule(row: _Rule) -> Rule:
    return Rule(
        id=row.id,
        name=row.name,
        account=row.account,
        rse_expression=row.rse_expression,
        copies=row.copies,
        state=row.state,
        locks_ok=row.locks_ok_cnt,
        locks_replicating=row.locks_replicating_cnt,
        locks_stuck=row.locks_stuck_cnt,
        error=row.error,
        expires_at=parsedate_to_datetime(row.expires_at) if row.expires_at else None,
        comment=row.comments,
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch
