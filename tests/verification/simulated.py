"""Stores whose counts are drawn at random: every procedure and law, in milliseconds; and how to tamper with them."""

import numpy as np

from smoothcert import CertifyConfig
from smoothcert.certification.certifier import certificate_row
from smoothcert.config.choices import law_of
from smoothcert.runs.store import Manifest, ResultStore, clock, first_link, next_link
from smoothcert.statistics.procedure import Procedure, certificates
from smoothcert.statistics.stopping import describe
from tests.counted import certified, sampled
from tests.runs.rows import TAU

CLASSES = 4


def simulate(folder, *, rows=40, shards=2, **settings):
    """A complete store of `rows` inputs 5, 8, 11, ..., as if a network had answered at random."""
    config = CertifyConfig(**{"sigma": 0.5, "n": 1000, "noise": "float", "seed": 0, **settings})
    tau = 0.0 if config.noise == "float" else TAU
    rules = Procedure.of(config, tau, rows)
    identity = {
        **{name: value for name, value in vars(config).items() if value is not None},
        **describe(rules.stopping),
        "alpha_each": rules.alpha,
        "split_alpha": 0.9,
        "tau": tau,
        "norm": rules.law.norm,
        "classes": CLASSES,
        "start": 5,
        "every": 3,
        "max": rows,
        "dataset": "nowhere",
        "split": "test",
        "noise_seed": 0,
        "model": "",
        "data": "",
    }
    store = ResultStore(folder)
    store.claim(Manifest(identity, rows, {"values": 784}))
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
                row = certificate_row(
                    made, index=index, label=label, noise=config.noise, seed=config.seed
                )
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
            settings = {"tau": said["tau"], "law": law_of(said["noise"])}
            (made,) = certified(*counts, said["sigma"], said["alpha"], **settings)
            about = {"index": int(row["idx"]), "label": int(row["label"]), "noise": row["noise"]}
            part.add({**certificate_row(made, **about, seed=row["seed"]), "time": row["time"]})
    return store


def tamper(store, change, where=lambda cells: True):
    """Change the cells of the first row that fits, by a function of them, and chain the part anew; returns its idx."""
    for part in store.parts():
        for place, cells in enumerate(part.rows()):
            if where(cells):
                part.fields[place] = list((cells | change(cells)).values())
                rechain(store, part)
                return int(cells["idx"])
    raise AssertionError("no row fits")


def rechain(store, part):
    """Write a part as a forger would, who knows the chain too."""
    link, lines = first_link(store.manifest().identity, part.path.stem), ["\t".join(part.header)]
    for fields in part.fields:
        text = "\t".join(fields[:-1])
        link = next_link(link, text)
        lines.append(f"{text}\t{link}")
    part.path.write_text("\n".join(lines) + "\n")
