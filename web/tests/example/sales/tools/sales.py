import csv
from pathlib import Path


def by_month(workspace: Path, path: str) -> dict:
    sums: dict[str, float] = {}
    with (workspace / path).open() as file:
        for row in csv.DictReader(file):
            sums[row["month"]] = sums.get(row["month"], 0) + float(row["amount"])
    return {"months": [{"month": month, "amount": amount} for month, amount in sums.items()]}
