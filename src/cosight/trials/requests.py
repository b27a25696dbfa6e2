"""What trials of vision-language models record about their requests, in the column `extra`."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

__all__ = ["RequestTotals", "read_requests", "request_totals"]

_FIELDS = {
    "outcome": pl.String,  # answered, abstained, refused, unparsed
    "requests": pl.Int64,
    "tokens_in": pl.Int64,
    "tokens_out": pl.Int64,
    "cost": pl.Float64,  # null where the price is not known
}


def read_requests(extra: pl.Series) -> pl.DataFrame:
    """Return outcome, requests, tokens_in, tokens_out and cost of each trial; null where it has none.

    >>> read_requests(pl.Series(['{"outcome": "refused", "requests": 2, "tokens_in": 300}', None])).row(0)
    ('refused', 2, 300, None, None)
    """
    is_answer = extra.str.contains('"tokens_in"', literal=True).fill_null(False)
    texts = pl.select(pl.when(is_answer).then(extra).otherwise(pl.lit("{}")))
    return texts.to_series().str.json_decode(pl.Struct(_FIELDS)).struct.unnest()


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """What an observer's answers took.

    Attributes:
        answers: Number of answers, whatever their outcome.
        abstained: Answers that say that no option fits.
        refused: Refusals.
        unparsed: Texts that name no option, or several.
        requests: Requests sent, failed ones included.
        tokens_in: Tokens of the questions.
        tokens_out: Tokens of the answers.
        cost: Price of the tokens; None where it is not known.
    """

    answers: int
    abstained: int
    refused: int
    unparsed: int
    requests: int
    tokens_in: int
    tokens_out: int
    cost: float | None


def request_totals(trials: pl.DataFrame) -> RequestTotals:
    """Return the totals of one observer's trials, of which `stimulus` and `extra` are used.

    A stimulus that has several trials was asked about once.

    >>> extra = '{"outcome": "answered", "requests": 1, "tokens_in": 300, "tokens_out": 5}'
    >>> request_totals(pl.DataFrame({"stimulus": ["a", "a"], "extra": [extra, extra]}))
    RequestTotals(answers=2, abstained=0, refused=0, unparsed=0, requests=1, tokens_in=300, tokens_out=5, cost=None)
    """
    table = read_requests(trials["extra"]).with_columns(trials["stimulus"]).filter(pl.col("outcome").is_not_null())
    counts = {name: int((table["outcome"] == name).sum()) for name in ("abstained", "refused", "unparsed")}
    asked = table.unique("stimulus")
    sums = {name: int(asked[name].sum()) for name in ("requests", "tokens_in", "tokens_out")}
    cost = None if asked["cost"].null_count() else round(float(asked["cost"].sum()), 9)
    return RequestTotals(table.height, **counts, **sums, cost=cost)
