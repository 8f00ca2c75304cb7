"""The invariants of the catalog that it can be asked about alone, one function a noun."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

from streamkit.errors import ConfigError
from streamkit.log.catalog import manifest, programs, sql_changes, topics
from streamkit.log.catalog.sql_queries import WANTED
from streamkit.log.database.database import Transaction
from streamkit.log.rescue.findings import Findings
from streamkit.log.storage import replication
from streamkit.names import is_inline

REBUILD = (
    "stop all processes of the log and restore a backup; if the catalog was damaged, move it away and run `streamkit rebuild`"
)


def check_catalog(transaction: Transaction, findings: Findings) -> None:
    """Check every invariant within the catalog; what cannot even be read is a finding too."""
    for check in CHECKS:
        _guarded(check, transaction, findings)


def _guarded(check: Callable[[Transaction, Findings], None], transaction: Transaction, findings: Findings) -> None:
    try:
        check(transaction, findings)
    except Exception as error:  # noqa: BLE001  damage may look like anything, and the other checks are still worth having
        findings.error("unreadable", f"catalog, {check.__name__.strip('_')}", f"{type(error).__name__}: {error}", REBUILD)


def _wrong(findings: Findings, kind: str, rows: Iterator[tuple[str, str]]) -> None:
    for where, message in rows:
        findings.error(kind, where, message, REBUILD)


def _topics(transaction: Transaction, findings: Findings) -> None:
    """Every topic can be read, and has the partitions and the newest schema that it declares."""
    for topic_id, name in transaction.execute("SELECT id, name FROM topic ORDER BY id"):
        findings.counts["topics"] += 1
        try:
            topic = topics.get_by_id(transaction, topic_id)
        except Exception as error:  # noqa: BLE001  as above
            findings.error("topic", f"topic {name}", f"its declaration cannot be read: {type(error).__name__}: {error}", REBUILD)
            continue
        found = sorted(manifest.end_offsets(transaction, topic_id))
        if found != list(range(topic.partitions)):
            findings.error(
                "topic", f"topic {name}", f"it declares {topic.partitions} partitions; the catalog has {found}", REBUILD
            )
        versions = topics.schema_versions(transaction, topic_id)
        numbers = [version.version for version in versions]
        if numbers != list(range(1, topic.version + 1)) or versions[-1].schema != topic.schema.ddl():
            message = (
                f"it declares version {topic.version} of its schema, ({topic.schema}); the catalog has the versions {numbers}"
            )
            findings.error("schema", f"topic {name}", f"{message}, the last ({versions[-1].schema if versions else ''})", REBUILD)


def _manifest(transaction: Transaction, findings: Findings) -> None:
    """Extents are in order, in bounds, and leave no gaps but those of compaction."""
    ((extents,),) = transaction.execute("SELECT count(*) FROM extent")
    findings.counts["extents"] += extents
    for complaint in manifest.check(transaction):
        where, _, message = complaint.partition(": ")
        findings.error("offsets", where, message, REBUILD)


def _partitions(transaction: Transaction, findings: Findings) -> None:
    """The counters of a partition are in their order."""
    rows = transaction.execute(
        "SELECT topic_id, partition, start_offset, cleaned_offset, purged_below, horizon_offset, next_offset FROM topic_partition"
    )
    findings.counts["partitions"] += len(rows)
    for topic_id, partition, *counters in rows:
        start, cleaned, purged, horizon, end = counters
        if not (0 <= start <= end and 0 <= cleaned <= end and 0 <= purged <= end and 0 <= horizon <= end):
            findings.error(
                "counters", f"topic id {topic_id}, partition {partition}",
                f"start, cleaned, purged and horizon offset are {counters[:-1]}; expected each from 0 to the end, {end}", REBUILD,
            )  # fmt: skip


def _slabs(transaction: Transaction, findings: Findings) -> None:
    """What is referred to is not in the trash; what nothing refers to is not in the manifest."""
    _wrong(
        findings, "trash",
        ((path, "the manifest has the slab, but it is also in the trash") for (path,) in transaction.execute(
            "SELECT s.path FROM slab s JOIN trash t ON t.path = s.path"
        )),
    )  # fmt: skip
    for (path,) in transaction.execute(
        "SELECT path FROM slab WHERE NOT EXISTS (SELECT 1 FROM extent WHERE extent.slab_id = slab.id)"
    ):
        findings.warning("unused-slab", path, "no extent refers to the slab any more, yet the manifest keeps it", REBUILD)
    for topic_id, partition, base in transaction.execute(
        "SELECT topic_id, partition, base_offset FROM extent WHERE NOT EXISTS (SELECT 1 FROM slab WHERE slab.id = extent.slab_id)"
    ):
        where = f"topic id {topic_id}, partition {partition}, offset {base}"
        findings.error("offsets", where, "the extent refers to a slab that the manifest does not have", REBUILD)


def _inline_slabs(transaction: Transaction, findings: Findings) -> None:
    """The bytes of inline slabs are there, as long as something refers to them or may be reading them, and they add up."""
    if not transaction.has_table("inline_slab"):  # before format 4
        return
    found: dict[str, int] = dict(transaction.execute("SELECT path, size FROM inline_slab"))
    named = {path for (path,) in transaction.execute("SELECT path FROM slab UNION SELECT path FROM trash") if is_inline(path)}
    findings.counts["inline_slabs"] += len(found)
    lost, left = sorted(named - found.keys()), sorted(found.keys() - named)
    _wrong(findings, "inline-slab", ((path, "the catalog does not have the bytes of the slab") for path in lost))
    _wrong(findings, "inline-slab", ((path, "the catalog has the bytes of a slab that nothing refers to") for path in left))
    ((total,),) = transaction.execute("SELECT inline_bytes FROM log")
    if total != sum(found.values()):
        message = f"their sizes add up to {sum(found.values())}; the catalog counts {total}"
        findings.error("inline-slab", "catalog, inline slabs", message, REBUILD)


def _applications(transaction: Transaction, findings: Findings) -> None:
    """An application has read from 0 to the end at most."""
    ((count,),) = transaction.execute("SELECT count(*) FROM application")
    findings.counts["applications"] += count
    _positions(
        transaction, findings, "SELECT a.name, p.topic_id, p.partition, p.next_offset, t.next_offset FROM application_position p "
        "JOIN application a ON a.id = p.application_id JOIN topic_partition t ON t.topic_id = p.topic_id AND t.partition = p.partition",
        "application",
    )  # fmt: skip


def _groups(transaction: Transaction, findings: Findings) -> None:
    """No group has committed more than there is."""
    ((count,),) = transaction.execute("SELECT count(*) FROM consumer_group")
    findings.counts["groups"] += count
    _positions(
        transaction, findings, "SELECT g.name, o.topic_id, o.partition, o.next_offset, t.next_offset FROM group_offset o "
        "JOIN consumer_group g ON g.id = o.group_id JOIN topic_partition t ON t.topic_id = o.topic_id AND t.partition = o.partition",
        "group",
    )  # fmt: skip


def _members(transaction: Transaction, findings: Findings) -> None:
    """Owner and target of every partition that a group reads are members of the group."""
    for group, topic_id, partition, owner, target in transaction.execute(
        "SELECT a.group_id, a.topic_id, a.partition, a.owner, a.target FROM group_assignment a "
        "LEFT JOIN group_member o ON o.group_id = a.group_id AND o.member_id = a.owner "
        "LEFT JOIN group_member t ON t.group_id = a.group_id AND t.member_id = a.target "
        "WHERE o.member_id IS NULL OR (a.target IS NOT NULL AND t.member_id IS NULL)"
    ):
        findings.error(
            "member", f"group id {group}, topic id {topic_id}, partition {partition}",
            f"its owner is {owner} and its target {target}; expected both to be members of the group", REBUILD,
        )  # fmt: skip


def _pins(transaction: Transaction, findings: Findings) -> None:
    """A pin is of a partition that exists, and of offsets: ahead of the end it holds nothing yet, before the start nothing any more."""
    for token, topic_id, partition, offset, end in transaction.execute(
        "SELECT p.token, p.topic_id, p.partition, p.first_offset, t.next_offset FROM pin p "
        "LEFT JOIN topic_partition t ON t.topic_id = p.topic_id AND t.partition = p.partition"
    ):
        findings.counts["pins"] += 1
        if end is None or offset < 0:
            message = "which does not exist" if end is None else f"from offset {offset} on; expected one from 0"
            findings.error("pin", f"pin {token}", f"it is of topic id {topic_id}, partition {partition}, {message}", REBUILD)


def _replication(transaction: Transaction, findings: Findings) -> None:
    """The numbers of copies fit the storage roots, and every root has the token of its marker."""
    try:
        found = replication.get(transaction)
    except ConfigError as error:
        findings.error("replication", "catalog, storage roots", str(error), REBUILD)
        return
    for root in found.roots:
        if not root.token or not os.path.isabs(root.path):
            message = f"its token is {root.token!r}; expected one that its marker holds, and an absolute path"
            findings.error("replication", f"storage root {root.path}", message, REBUILD)


def _positions(transaction: Transaction, findings: Findings, statement: str, noun: str) -> None:
    for name, topic_id, partition, offset, end in transaction.execute(statement):
        if type(offset) is not int or not 0 <= offset <= end:
            findings.error(
                "position", f"{noun} {name}, topic id {topic_id}, partition {partition}",
                f"it is at offset {offset!r}; expected a whole number from 0 to the end, {end}", REBUILD,
            )  # fmt: skip


def _epochs(transaction: Transaction, findings: Findings) -> None:
    """Epochs are dense up to the application's, generations and stream time never go back, tokens agree."""
    for application_id, name, generation, epoch, token in transaction.execute(
        "SELECT id, name, generation, epoch, token FROM application ORDER BY id"
    ):
        rows = transaction.execute(
            "SELECT epoch, generation, token, stream_time_ms FROM epoch WHERE application_id = ? ORDER BY epoch",
            (application_id,),
        )
        findings.counts["epochs"] += len(rows)
        where = f"application {name}"
        numbers = [row[0] for row in rows]
        if numbers != list(range(epoch - len(rows) + 1, epoch + 1)) or (epoch and not rows):
            findings.error(
                "epochs", where, f"it is at epoch {epoch}; the remembered epochs do not lead up to it without a gap", REBUILD
            )
        elif (rows[-1][2] if rows else "") != token:
            findings.error("epochs", where, f"epoch {epoch} has the token {rows[-1][2]}, the application {token}", REBUILD)
        generations = [row[1] for row in rows]
        if generations != sorted(generations) or (generations and generations[-1] > generation):
            findings.error("epochs", where, f"the generations of its epochs go back, or beyond its own, {generation}", REBUILD)
        times = [row[3] for row in rows if row[3] is not None]
        if times != sorted(times):
            findings.error("epochs", where, "its stream time goes back", REBUILD)


def _programs(transaction: Transaction, findings: Findings) -> None:
    """Programs that are remembered are of generations that an application has had, and no more than are kept."""
    if not transaction.has_table("application_program"):  # before format 6
        return
    for name, generation, count, oldest, newest in transaction.execute(
        "SELECT a.name, a.generation, count(*), min(p.generation), max(p.generation) FROM application_program p "
        "JOIN application a ON a.id = p.application_id GROUP BY a.id, a.name, a.generation ORDER BY a.name"
    ):
        findings.counts["programs"] += count
        if not 1 <= oldest <= newest <= generation or count > programs.KEPT:
            findings.error(
                "programs", f"application {name}",
                f"it has {count} programs of the generations {oldest} to {newest}; expected at most {programs.KEPT} of 1 to its own, {generation}",
                REBUILD,
            )  # fmt: skip


def _stores(transaction: Transaction, findings: Findings) -> None:
    """Every store has its changelog topic, which no other store has."""
    owners: dict[int, str] = {}
    for application, store, topic_id, name in transaction.execute(
        "SELECT a.name, s.name, s.changelog_topic_id, t.name FROM application_store s JOIN application a ON a.id = s.application_id "
        "LEFT JOIN topic t ON t.id = s.changelog_topic_id ORDER BY a.name, s.number"
    ):
        findings.counts["stores"] += 1
        subject = f"store {store} of {application}"
        if owners.setdefault(topic_id, subject) != subject:
            advice = f"give it another name, and begin both again: streamkit apps reset {application}"
            findings.error("store", subject, f"its changelog {name} is that of the {owners[topic_id]}, too", advice)
        if name is None:
            findings.error("store", subject, f"its changelog, topic id {topic_id}, does not exist", REBUILD)


def _producers(transaction: Transaction, findings: Findings) -> None:
    """Sequences have offsets that exist and grow, and producers have committed what they remember."""
    ((count,),) = transaction.execute("SELECT count(*) FROM producer")
    findings.counts["producers"] += count
    ends = {
        (topic_id, partition): end
        for topic_id, partition, end in transaction.execute("SELECT topic_id, partition, next_offset FROM topic_partition")
    }
    reached: dict[tuple[int, int, int], int] = {}
    for producer, topic_id, sequence, offsets in transaction.execute(
        "SELECT producer_id, topic_id, sequence, offsets FROM producer_sequence ORDER BY producer_id, topic_id, sequence"
    ):
        findings.counts["sequences"] += 1
        for partition, first, following in json.loads(offsets):
            place = (producer, topic_id, partition)
            end = ends.get((topic_id, partition), -1)
            if not reached.get(place, 0) <= first < following <= end:
                findings.error(
                    "sequence", f"producer {producer}, topic id {topic_id}, sequence {sequence}",
                    f"it has the offsets {first} to {following} of partition {partition}; expected some from {reached.get(place, 0)} to {end}",
                    REBUILD,
                )  # fmt: skip
            reached[place] = following
    for producer, epoch, serial, token in transaction.execute("SELECT id, epoch, step, token FROM producer"):
        if epoch < 1 or serial < 0 or (serial > 0) != (token != ""):
            findings.error(
                "producer", f"producer {producer}", f"it has epoch {epoch}, serial {serial} and token {token!r}", REBUILD
            )


def _sql(transaction: Transaction, findings: Findings) -> None:
    """Streams, tables, types and queries of SQL can be read; a query is wanted to run or to pause, and fills a source that there is."""
    found = sql_changes.objects(transaction)
    findings.counts["sql_sources"] += len(found.sources)
    findings.counts["sql_queries"] += len(found.queries)
    names = {source.name for source in found.sources}
    ids = {query.id for query in found.queries}
    for query in found.queries:
        if query.wanted not in WANTED or not 0 < query.number <= found.numbers:
            message = f"it has the number {query.number} of {found.numbers}, and its wanted state is {query.wanted!r}; expected one of {WANTED}"
            findings.error("sql", f"query {query.id}", message, REBUILD)
        if query.sink not in names:
            findings.error("sql", f"query {query.id}", f"it fills {query.sink!r}, which is no stream or table", REBUILD)
    for source in found.sources:
        if source.query is not None and source.query not in ids:
            findings.error(
                "sql", f"{source.kind} {source.name}", f"the query {source.query}, which fills it, does not exist", REBUILD
            )


CHECKS: tuple[Callable[[Transaction, Findings], None], ...] = (
    _topics, _manifest, _partitions, _slabs, _inline_slabs, _applications, _epochs, _programs, _stores, _producers, _groups, _members, _pins,
    _replication, _sql,
)  # fmt: skip
