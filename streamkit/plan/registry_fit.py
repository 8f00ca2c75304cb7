"""Whether values are in the wire format of a schema registry, as a topic has them and as a program reads or writes them."""

from __future__ import annotations

from streamkit.formats.format import REGISTRY_URL, Format, without_password

_JSON = ("json", "ksql_json")
_IN_SQL = {
    "avro": "AVRO",
    "json": "JSON_SR",
    "ksql_json": "JSON_SR",
    "protobuf": "PROTOBUF",
}  # the VALUE_FORMAT that has a registry


def registry_misfit(said: Format, its: Format) -> str | None:
    """
    Why values of the format that a program has `said` are none of a topic: one of both is in the wire format of a registry, and the other is not.

    None if both are, or neither, and for other formats than that of the topic. Which registry it is does not matter: it may have several addresses.
    """
    is_same = said.name == its.name or (said.name in _JSON and its.name in _JSON)
    if not is_same or said.has_registry == its.has_registry:
        return None
    if its.has_registry:
        address = without_password(dict(its.settings)[REGISTRY_URL])
        return (
            f"its values are {its.name} in the wire format of the schema registry {address}, which this program does not say; expected format_settings="
            f"{{\"{REGISTRY_URL}\": …}}, in SQL SET '{REGISTRY_URL}' = '…' in front of the statement and VALUE_FORMAT = '{_IN_SQL[its.name]}'"
        )
    return (
        f"its values are {its.name} without a schema registry, and this program says the one at {without_password(dict(said.settings)[REGISTRY_URL])}; "
        f"expected format_settings= without {REGISTRY_URL}, in SQL UNSET '{REGISTRY_URL}' in front of the statement"
    )
