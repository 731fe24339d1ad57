"""Numbers of a file, and whether a printed one is the same."""

import re


def at(value, pointer):
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "ps": 1e-12,
         "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "%": 0.01,
         "K": 1e3, "M": 1e6, "T": 1e12, "Wh": 3.6e3, "kWh": 3.6e6, "MWh": 3.6e9, "GWh": 3.6e12, "": 1}


def says(text, value):
    """Whether a printed number is this value, to the digits that it prints."""
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("yes" if value else "no")
    found = re.fullmatch(r"(-?[0-9.]+(?:e[+-]?[0-9]+)?) ?([A-Za-z%]*)", text.replace(",", ""))
    if not found or found.group(2) not in UNITS:
        return False
    factors = [UNITS[found.group(2)]] + ([1e9] if found.group(2) == "B" else [])
    slack = 0.0005 if found.group(2) == "%" else 1e-12  # percentages print a tenth
    return any(abs(float(found.group(1)) * f - value) <= 0.0051 * abs(value) + slack
               for f in factors)
