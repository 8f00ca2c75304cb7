"""Statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamkit.expressions.sql.refusal import SyntaxRefusedError
from streamkit.plan.text_span import TextSpan
from streamkit.sql.reader.clause_reader import COLUMN, FUNCTION, OTHER, QUERY, SOURCE, TYPE
from streamkit.sql.reader.query_reader import QueryReader
from streamkit.sql.tree.span import Name, Written
from streamkit.sql.tree.statements import (
    STREAM,
    TABLE,
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ControlQuery,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    Define,
    DeleteRows,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertQuery,
    InsertValues,
    Print,
    RunScript,
    SelectStatement,
    Set,
    Show,
    Statement,
)

Listed = TypeVar("Listed")
SOURCE_KINDS = {"STREAM": STREAM, "TABLE": TABLE}
OTHER_STATEMENTS = {  # which other SQL has, with the way to say it here
    "WITH": "write the query in FROM: SELECT … FROM (SELECT …) name",
    "VALUES": "write the rows into a stream or table: INSERT INTO name VALUES (…)",
    "UPDATE": "a row that is inserted into a table replaces the row of its key: INSERT INTO name VALUES (…)",
    "MERGE": "a row that is inserted into a table replaces the row of its key: INSERT INTO name VALUES (…)",
    "UPSERT": "a row that is inserted into a table replaces the row of its key: INSERT INTO name VALUES (…)",
    "REPLACE": "a row that is inserted into a table replaces the row of its key: INSERT INTO name VALUES (…)",
    "TRUNCATE": "delete rows of a table by their keys: DELETE FROM name WHERE key = …; or drop the stream or table and its topic, and create it "
    "again: DROP … DELETE TOPIC",
    "DESC": "write DESCRIBE name",
    "RUN_SCRIPT": "write RUN SCRIPT 'file'",
    "OUTPUT": "streamkit sql --json writes rows in JSON",
    "SPOOL": "let your shell keep what streamkit sql -f FILE writes",
    "HISTORY": "the prompt of streamkit sql goes through earlier texts by the arrow keys",
    "CLEAR": "your terminal clears itself, often by Ctrl-L",
    "VERSION": "streamkit --version says it",
    "SERVER": "streamkit sql --log ADDRESS opens another log",
    "BEGIN": "the statements of one text that change something are one transaction",
    "COMMIT": "the statements of one text that change something are one transaction",
    "USE": "a session has one log; open a session of the other log",
}
OTHER_VIEWS = "a query that keeps its result up to date is CREATE STREAM name AS SELECT … or CREATE TABLE name AS SELECT …"
SHOWN = {  # the first words of what SHOW shows, with the words that may be behind them
    "TOPICS": ("EXTENDED",), "STREAMS": ("EXTENDED",), "TABLES": ("EXTENDED",), "QUERIES": ("EXTENDED",), "FUNCTIONS": (), "TYPES": (),
    "PROPERTIES": (), "VARIABLES": (), "CONNECTORS": (),
}  # fmt: skip
SHOWN_BY_TWO = {"ALL": "TOPICS", "SOURCE": "CONNECTORS", "SINK": "CONNECTORS", "CONNECTOR": "PLUGINS"}
A_SHOWN = (
    "TOPICS, ALL TOPICS, STREAMS, TABLES, QUERIES, FUNCTIONS, TYPES, PROPERTIES, VARIABLES, CONNECTORS, SOURCE CONNECTORS, SINK CONNECTORS "
    "or CONNECTOR PLUGINS"
)


class StatementReader(QueryReader):
    """Reads one statement."""

    def whole_statement(self) -> Statement:
        """The statement that all words are."""
        found = self.statement()
        if self.word.kind != "end":
            raise self.unexpected("")
        return found

    def statement(self) -> Statement:
        """A statement."""
        self.asks(*STATEMENTS)
        reader = STATEMENTS.get(self.word.key)
        if self.word.key in OTHER_STATEMENTS:
            raise self._refused(f"there is no statement {self.word.key}; {OTHER_STATEMENTS[self.word.key]}", self.word)
        if reader is None:
            raise self.unexpected("the first word of a statement, such as CREATE, INSERT or SELECT")
        begin = self.word
        found = reader(self)
        object.__setattr__(found, "span", self.span_from(begin))  # it is new, and nobody has it yet
        return found

    def _select(self) -> Statement:
        return SelectStatement(self.query())

    def _create(self) -> Statement:
        self.move()
        or_replace = self._took_words("OR", "REPLACE")
        if not or_replace and self.is_at("TYPE"):
            return self._create_type()
        if self.is_at("CONNECTOR"):
            raise self._refused(
                "a connector reads or writes; expected CREATE SOURCE CONNECTOR or CREATE SINK CONNECTOR", self.word
            )
        if not or_replace and self.is_at("SOURCE", "SINK") and self.is_before("CONNECTOR"):
            return self._create_connector()
        if self.is_at("VIEW", "MATERIALIZED"):
            raise self._refused(f"there is no CREATE {self.word.key}; {OTHER_VIEWS}", self.word)
        is_read_only = self.took("SOURCE")
        if not or_replace:
            self.asks("TYPE", "SINK", "CONNECTOR")
        kind = self._source_kind("STREAM or TABLE" if or_replace or is_read_only else "STREAM, TABLE, TYPE or CONNECTOR")
        if_not_exists = self._if_not_exists()
        name = self.given_name(SOURCE, "the name of a stream or table")
        columns = tuple(self._in_parentheses(self._column)) if self.is_at("(") else ()
        properties = self.properties()
        if not self.is_at("AS"):
            return CreateSource(kind, name, columns, properties, or_replace, if_not_exists, is_read_only)
        if columns:
            raise self._refused("found AS behind columns; the query of AS says which columns there are", self.word)
        if is_read_only:
            raise self._refused("found AS behind SOURCE; a source that is written by a query is none", self.word)
        self.move()
        return CreateAs(kind, name, self.query(), properties, or_replace, if_not_exists)

    def _source_kind(self, expected: str = "STREAM or TABLE") -> str:
        if not self.is_at(*SOURCE_KINDS):
            raise self.unexpected(expected)
        return SOURCE_KINDS[self.move().key]

    def _took_words(self, *words: str) -> bool:
        """Whether these words are here; once the first is, the others must follow."""
        if not self.took(words[0]):
            return False
        for word in words[1:]:
            self.expect(word)
        return True

    def _if_not_exists(self) -> bool:
        return self.is_at("IF") and self.is_before("NOT") and self._took_words("IF", "NOT", "EXISTS")

    def _if_exists(self) -> bool:
        return self.is_at("IF") and self.is_before("EXISTS") and self._took_words("IF", "EXISTS")

    def _in_parentheses(self, read: Callable[[], Listed]) -> list[Listed]:
        self.expect("(")
        return self.listed(read)

    def _column(self) -> ColumnDefinition:
        begin = self.word
        if self.is_at("PRIMARY") and self.is_before("KEY") and self.ahead(2).key == "(":
            raise self._refused(
                "PRIMARY KEY stands behind a column; expected it behind each column of the key, as in `id INT PRIMARY KEY`", begin
            )
        name = self.given_name(expected="the name of a column")
        type = self.type()
        role, header = "", None
        if self.took("KEY"):
            role = "key"
        elif self._took_words("PRIMARY", "KEY"):
            role = "primary key"
        elif self.took("HEADERS"):
            role = "headers"
        elif self.took("HEADER"):
            role = "headers"
            self.expect("(")
            header = self.quoted_text("the name of a header between quotes")
            self.expect(")")
        if self.is_at("NOT") and self.is_before("NULL"):
            raise self._refused(
                "there is no NOT NULL: the columns that SQL declares may be null, but for the key of a table; leave it out, or create the topic "
                'with it by `streamkit topics create --schema "id int NOT NULL, …"`',
                self.word,
            )
        return ColumnDefinition(name, type, role, header, self.span_from(begin))

    def _create_type(self) -> Statement:
        self.move()
        if_not_exists = self._if_not_exists()
        name = self.given_name(TYPE)
        self.expect("AS")
        return CreateType(name, self.type(), if_not_exists)

    def _create_connector(self) -> Statement:
        kind = self.move().key.lower()
        self.move()
        if_not_exists = self._if_not_exists()
        name = self.written_name()
        self.expect("WITH")
        settings = self._in_parentheses(self._placed_setting)
        places = tuple(place for _, place in settings)
        return CreateConnector(kind, name, tuple(setting for setting, _ in settings), if_not_exists, places)

    def _placed_setting(self) -> tuple[tuple[str, str], TextSpan]:
        begin = self.word
        setting = self._setting()
        return setting, self.span_from(begin)

    def _setting(self) -> tuple[str, str]:
        """A setting of a connector and its value, as texts."""
        name = str(self.move().value) if self.word.kind in ("text", "quoted") else self._dotted_name()
        self.expect("=")
        word = self.word
        if word.kind == "number" and word.value[0] in ("", "decimal"):
            return name, self.move().text
        if self.is_at("TRUE", "FALSE"):
            return name, self.move().text.lower()
        return name, self.quoted_text("a text between quotes")

    def _dotted_name(self) -> str:
        """The name of a setting without quotes, which may have dots."""
        if self.word.kind != "name":
            raise self.unexpected("the name of a setting")
        name = self.move().text
        while self.is_at(".") and self.ahead().kind == "name":
            self.move()
            name += f".{self.move().text}"
        return name

    def _insert(self) -> Statement:
        self.move()
        self.expect("INTO")
        name = self.source_name()
        if self.is_at("(", "VALUES"):
            columns = tuple(self._in_parentheses(self._listed_column)) if self.is_at("(") else None
            if columns and self.is_at("SELECT"):
                raise self._refused(
                    "INSERT INTO of a query lists no columns: those of SELECT go where their names say; leave the list out",
                    self.word,
                )
            self.expect("VALUES")
            return InsertValues(name, columns, self._rows())
        properties = self.properties()
        if not self.is_at("SELECT"):
            raise self.unexpected("SELECT" if properties else "columns in parentheses, VALUES, WITH or SELECT")
        return InsertQuery(name, self.query(), properties)

    def _listed_column(self) -> Name:
        return self.given_name(COLUMN, "the name of a column")

    def _rows(self) -> tuple[tuple[Written, ...], ...]:
        rows = [self._row()]
        while self.took(","):
            rows.append(self._row())
        return tuple(rows)

    def _row(self) -> tuple[Written, ...]:
        return tuple(self._in_parentheses(self.written))

    def _delete(self) -> Statement:
        self.move()
        self.expect("FROM")
        name = self.source_name()
        self.expect("WHERE")
        return DeleteRows(name, self.written())

    def _drop(self) -> Statement:
        self.move()
        if self.took("TYPE"):
            if_exists = self._if_exists()
            return DropType(self.written_name(TYPE), if_exists)
        if self.took("CONNECTOR"):
            if_exists = self._if_exists()
            return DropConnector(self.written_name(), if_exists)
        kind = self._source_kind("STREAM, TABLE, TYPE or CONNECTOR")
        if_exists = self._if_exists()
        name = self.source_name()
        is_cascade = self.took("CASCADE")
        deletes_topic = self._took_words("DELETE", "TOPIC")
        if self.is_at("CASCADE"):
            raise self._refused("found CASCADE behind DELETE TOPIC; it belongs before DELETE TOPIC", self.word)
        return DropSource(kind, name, if_exists, is_cascade, deletes_topic)

    def _alter(self) -> Statement:
        self.move()
        if self.took("SYSTEM"):
            name, value = self._assigned()
            return Set(name, value, is_system=True)
        kind = self._source_kind("STREAM, TABLE or SYSTEM")
        name_of_source = self.source_name()
        self.expect("ADD")
        columns = [self._added()]
        while self.took(","):
            if self.is_at("ADD") and not self._is_type_behind():
                self.move()
            columns.append(self._added())
        return AlterSource(kind, name_of_source, tuple(columns))

    def _added(self) -> ColumnDefinition:
        if self.is_at("COLUMN") and not self._is_type_behind():
            self.move()
        begin = self.word
        name = self.given_name(expected="the name of a column")
        return ColumnDefinition(name, self.type(), span=self.span_from(begin))

    def _is_type_behind(self) -> bool:
        """Whether the word here is a column's name, with its type behind it, as in `ADD column INT`."""
        return self.ahead(2).key in (",", "<", "(") or self.ahead(2).kind == "end"

    def _explain(self) -> Statement:
        self.move()
        self.asks(*STATEMENTS)
        if self.word.key in STATEMENTS and self.ahead().kind != "end":
            if self.is_at("EXPLAIN"):
                raise self._refused("EXPLAIN explains a statement, and no other EXPLAIN", self.word)
            return Explain(self.statement())
        return Explain(self.written_name(QUERY, "a statement, or the id of a query"))

    def _describe(self) -> Statement:
        self.move()
        is_word = self.ahead().kind != "end"
        if is_word and self.is_at("FUNCTION", "CONNECTOR") and not self.is_before("EXTENDED"):
            subject = self.move().key.lower()
            return Describe(subject, self.written_name(FUNCTION if subject == "function" else OTHER))
        self.asks("FUNCTION", "CONNECTOR")
        if self.is_at("STREAMS", "TABLES"):
            subject = self.move().key.lower()
            return Describe(subject, None, self.took("EXTENDED"))
        is_extended = is_word and self.took("EXTENDED")  # before the name, as older clients of ksqlDB write it
        return Describe("source", self.source_name(), self.took("EXTENDED") or is_extended)

    def _show(self) -> Statement:
        self.move()
        self.asks(*SHOWN, *SHOWN_BY_TWO)
        word = self.word
        if word.key in SHOWN_BY_TWO:
            self.move()
            self.expect(SHOWN_BY_TWO[word.key])
            subject = f"{word.key} {SHOWN_BY_TWO[word.key]}".lower()
            return Show(subject, word.key == "ALL" and self.took("EXTENDED"))
        if word.key in ("COLUMNS", "CREATE"):
            raise self._refused(f"there is no SHOW {word.key}; DESCRIBE name shows columns, DESCRIBE name EXTENDED more", word)
        if word.key not in SHOWN:
            raise self.unexpected(A_SHOWN)
        self.move()
        return Show(word.key.lower(), bool(SHOWN[word.key]) and self.took(*SHOWN[word.key]))

    def _print(self) -> Statement:
        self.move()
        topic = self.topic_name()
        is_from_beginning = self._took_words("FROM", "BEGINNING")
        interval = self.whole_number() if self.took("INTERVAL", "SAMPLE") else None
        limit = self.whole_number() if self.took("LIMIT") else None
        return Print(topic, is_from_beginning, interval, limit)

    def _control(self) -> Statement:
        action = self.move().key.lower()
        if self.took("ALL"):
            return ControlQuery(action, None)
        return ControlQuery(action, self.written_name(QUERY, "the id of a query, or ALL"))

    def _assigned(self) -> tuple[str, str]:
        name = self.quoted_text("the name of a setting between quotes, as in SET 'auto.offset.reset' = 'earliest'")
        self.expect("=")
        return name, self.quoted_text()

    def _set(self) -> Statement:
        self.move()
        return Set(*self._assigned())

    def _unset(self) -> Statement:
        self.move()
        return Set(self.quoted_text("the name of a setting between quotes"), None)

    def _variable(self) -> str:
        word = self.word
        if word.kind != "name" or word.text[0].isdigit():
            raise self.unexpected("the name of a variable, of letters, digits and _")
        return self.move().text

    def _define(self) -> Statement:
        self.move()
        name = self._variable()
        self.expect("=")
        return Define(name, self.quoted_text())

    def _undefine(self) -> Statement:
        self.move()
        return Define(self._variable(), None)

    def _run(self) -> Statement:
        self.move()
        self.expect("SCRIPT")
        return RunScript(self.quoted_text("a file between quotes"))

    def _assert(self) -> Statement:
        self.move()
        if self.is_at("VALUES", "NULL"):
            return self._assert_values()
        if self.is_at(*SOURCE_KINDS):
            kind = self._source_kind()
            name = self.source_name()
            return AssertSource(kind, name, tuple(self._in_parentheses(self._column)), self.properties())
        exists = not self._took_words("NOT", "EXISTS")
        if self.took("TOPIC"):
            return AssertTopic(self.topic_name(), exists, self.properties(), self._timeout())
        if self.took("SCHEMA"):
            return self._assert_schema(exists=exists)
        raise self.unexpected(
            "TOPIC or SCHEMA" if not exists else "VALUES, NULL VALUES, STREAM, TABLE, TOPIC, SCHEMA or NOT EXISTS"
        )

    def _assert_values(self) -> Statement:
        is_tombstone = self.took("NULL")
        self.expect("VALUES")
        name = self.source_name()
        columns = tuple(self._in_parentheses(self._listed_column)) if self.is_at("(") else None
        self.expect("KEY" if is_tombstone else "VALUES")
        return AssertValues(name, columns, self._row(), is_tombstone)

    def _assert_schema(self, *, exists: bool) -> Statement:
        begin = self.word
        subject = self.topic_name() if self.took("SUBJECT") else None
        schema_id = self.whole_number() if self.took("ID") else None
        if subject is None and schema_id is None:
            raise SyntaxRefusedError("ASSERT SCHEMA names no schema; expected SUBJECT name, ID number or both", begin.span)
        return AssertSchema(subject, schema_id, exists, self._timeout())

    def _timeout(self) -> int | None:
        return self.duration() if self.took("TIMEOUT") else None


STATEMENTS: dict[str, Callable[[StatementReader], Statement]] = {
    "ALTER": StatementReader._alter,
    "ASSERT": StatementReader._assert,
    "CREATE": StatementReader._create,
    "DEFINE": StatementReader._define,
    "DELETE": StatementReader._delete,
    "DESCRIBE": StatementReader._describe,
    "DROP": StatementReader._drop,
    "EXPLAIN": StatementReader._explain,
    "INSERT": StatementReader._insert,
    "LIST": StatementReader._show,
    "PAUSE": StatementReader._control,
    "PRINT": StatementReader._print,
    "RESUME": StatementReader._control,
    "RUN": StatementReader._run,
    "SELECT": StatementReader._select,
    "SET": StatementReader._set,
    "SHOW": StatementReader._show,
    "TERMINATE": StatementReader._control,
    "UNDEFINE": StatementReader._undefine,
    "UNSET": StatementReader._unset,
}
