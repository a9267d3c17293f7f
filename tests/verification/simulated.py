"""Stores whose counts are drawn at random: every procedure and law, in milliseconds; and how to tamper with them."""

import numpy as np

from smoothcert import CertifyConfig
from smoothcert.certification.certifier import certificate_row
from smoothcert.config.choices import law_of
from smoothcert.runs.identity import digest_of
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.store import ResultStore, clock, row_check
from smoothcert.statistics.procedure import Procedure, certificates
from tests.counted import certified, sampled
from tests.runs.rows import IDENTITY, TAU

CLASSES = 4


def simulate(folder, *, rows=40, shards=2, **settings):
    """A complete store of `rows` inputs 5, 8, 11, ..., as if a network had answered at random."""
    config = CertifyConfig(**{"sigma": 0.5, "n": 1000, "noise": "float", "seed": 0, **settings})
    tau = 0.0 if config.noise == "float" else TAU
    rules = Procedure.of(config, tau, rows)
    settings = {name: value for name, value in vars(config).items() if value is not None}
    if config.radii:
        settings["radii"] = list(config.radii)
    about = {"classes": CLASSES, "start": 5, "every": 3, "max": rows, "model": "", "data": ""}
    store = ResultStore(folder)
    store.claim(Manifest({**IDENTITY, **settings, **about}, rows, {}))
    rng = np.random.default_rng(0)
    indices = range(5, 5 + 3 * rows, 3)
    for shard in range(shards):
        with store.writer(shard, shards) as part:
            for index in indices[shard::shards]:
                made = _certificate(rng, rules)
                label = int(rng.choice([made.selected, 0]))
                if config.skip_wrong and made.selected != label:
                    nothing = np.full((1, len(rules.stopping.looks)), -1)
                    (made,) = certificates(
                        rules, made.counts0[None], 0 * made.counts[None], nothing
                    )
                row = certificate_row(made, index=index, label=label)
                part.add({**row, "time": clock(0.5)})
    return store


def _certificate(rng, rules):
    p = rng.choice([0.3, 0.6, 0.75, 0.9, 0.99, 1.0])
    chances = [p, *((1 - p) * np.array([0.6, 0.4, 0.0]))]
    counts0 = rng.multinomial(rules.n0, chances)
    answers = rng.choice(CLASSES, rules.n, p=chances)
    return sampled(rules, counts0, lambda seen: np.bincount(answers[:seen], minlength=CLASSES))


def invented(folder, source, selected):
    """A store like `source` whose counts nobody drew: all samples of an input name the class `selected(row)`."""
    store, manifest = ResultStore(folder), source.manifest()
    store.claim(manifest)
    said = manifest.identity
    with store.writer(0, 1) as part:
        for row in source.rows():
            counts = np.zeros((2, 1, said["classes"]), np.int64)
            counts[:, 0, selected(row)] = said["n0"], said["n"]
            settings = {"tau": manifest.procedure.tau, "law": law_of(said["noise"])}
            (made,) = certified(*counts, said["sigma"], said["alpha"], **settings)
            made_of = certificate_row(made, index=int(row["idx"]), label=int(row["label"]))
            part.add({**made_of, "time": row["time"]})
    return store


def tamper(store, change, where=lambda cells: True):
    """Change the cells of the first row that fits, by a function of them, and mend its check; returns its idx."""
    for part in store.parts():
        for place, cells in enumerate(part.rows()):
            if where(cells):
                part.fields[place] = list((cells | change(cells)).values())
                recheck(store, part)
                return int(cells["idx"])
    raise AssertionError("no row fits")


def recheck(store, part):
    """Write a part as a forger would, who knows how checks are made."""
    manifest = store.manifest()
    digest = digest_of(manifest.identity, manifest.inputs)
    lines = ["\t".join(part.header)]
    for fields in part.fields:
        text = "\t".join(fields[:-1])
        lines.append(f"{text}\t{row_check(digest, text)}")
    part.path.write_text("\n".join(lines) + "\n")
