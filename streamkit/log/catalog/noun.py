"""
What makes functions on a transaction the verbs of a noun, such as `catalog.topics.get`: each call is a transaction of its own.

The functions themselves stand in the module of their noun, where others call them inside larger transactions. Those that need
the time take it second, as the clock says it inside of the transaction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from streamkit.log.catalog.transactions import Transactions
from streamkit.log.database.database import Transaction

Given = ParamSpec("Given")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Noun:
    """A kind of thing in the catalog, with what can be asked of it and done to it."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions


def reads(work: Callable[Concatenate[Transaction, Given], Result]) -> Callable[Concatenate[Noun, Given], Result]:
    """A verb that changes nothing, on one snapshot; it runs again where the server is lost."""

    @functools.wraps(work)
    def verb(noun: Noun, /, *given: Given.args, **named: Given.kwargs) -> Result:
        return noun.transactions.read(lambda transaction: work(transaction, *given, **named))

    return verb


def reads_now(work: Callable[Concatenate[Transaction, int, Given], Result]) -> Callable[Concatenate[Noun, Given], Result]:
    """`reads`, of what depends on the time."""

    @functools.wraps(work)
    def verb(noun: Noun, /, *given: Given.args, **named: Given.kwargs) -> Result:
        transactions = noun.transactions
        return transactions.read(lambda transaction: work(transaction, transactions.now_ms(), *given, **named))

    return verb


def writes(work: Callable[Concatenate[Transaction, Given], Result]) -> Callable[Concatenate[Noun, Given], Result]:
    """A verb that takes effect whole, or raises and changes nothing."""

    @functools.wraps(work)
    def verb(noun: Noun, /, *given: Given.args, **named: Given.kwargs) -> Result:
        return noun.transactions.write(lambda transaction: work(transaction, *given, **named))

    return verb


def writes_now(work: Callable[Concatenate[Transaction, int, Given], Result]) -> Callable[Concatenate[Noun, Given], Result]:
    """`writes`, of what notes the time."""

    @functools.wraps(work)
    def verb(noun: Noun, /, *given: Given.args, **named: Given.kwargs) -> Result:
        transactions = noun.transactions
        return transactions.write(lambda transaction: work(transaction, transactions.now_ms(), *given, **named))

    return verb


def commits(
    work: Callable[[Transaction, int, Value], Result], is_done: Callable[[Transaction, Value], bool]
) -> Callable[[Noun, Value], Result]:
    """
    `writes_now`, of a value with a token of its own, so that it can be found out by `is_done` whether it took effect.

    When the database fails inside the commit, its outcome is made final and read before the verb returns or raises; only if that
    fails too, OutcomeUnknownError leaves it open: commit the same value again, which does nothing twice.
    """

    @functools.wraps(work)
    def verb(noun: Noun, value: Value, /) -> Result:
        transactions = noun.transactions
        return transactions.commit(
            lambda transaction: work(transaction, transactions.now_ms(), value), lambda transaction: is_done(transaction, value)
        )

    return verb
