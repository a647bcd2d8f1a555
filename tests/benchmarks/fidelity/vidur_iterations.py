"""Vidur's iteration times (`perf/vidur_simulations`), each as a cell. They leave out LM head, sampler and CPU."""

from cascadia.reproduce.public_data import rows
from cascadia_sim.fit.calibration_cells import Cell
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.models.catalogue import architecture

SOURCE = "perf/vidur_simulations/iteration_times.csv"


def cells() -> list[Cell]:
    config = EngineConfig(engine="vidur")
    found = []
    for row in rows(SOURCE):
        batch, new, context = (int(row[k]) for k in ("batch", "new_tokens", "context"))
        decode = row["phase"] == "decode"
        found.append(
            Cell(
                architecture(row["model"]),
                int(row["tp"]),
                1,
                tokens=batch * new,
                sequences=batch,
                context=batch * context if decode else 0,
                pairs=0 if decode else batch * (new * (new + 1) / 2 + new * context),
                seconds=float(row["iter_ms"]) / 1e3,
                config=config,
                gpu=gpu(row["gpu"]),
            )
        )
    return found
