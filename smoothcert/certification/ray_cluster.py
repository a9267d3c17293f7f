"""A Ray cluster: joined where it runs, or started on this machine alone; and what is sent to its workers."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from smoothcert.errors import ConfigError, MissingExtra, ModelError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a warning less
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # of what Ray prints about dead workers: we say it in a line
}
_LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"
}  # Ray's own switch: on these systems it binds to loopback alone

_CONNECT_SECONDS = 20.0


def import_ray(alone: bool) -> Any:
    """With the switches that Ray and its processes read when they are imported; `alone`: for a cluster of our own.

    Other users of this machine reach loopback too, but they lack the token, without which Ray obeys nobody.
    """
    switches = dict(_QUIET)
    if alone:
        switches |= {**_LOOPBACK, "RAY_AUTH_MODE": "token"}
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if "ray" not in sys.modules:
        os.environ.update(switches)
    elif alone and any(os.environ.get(name) != value for name, value in switches.items()):
        raise ConfigError(
            "Ray was imported before, in a way that lets it listen to other machines: call `ray.init` yourself, or "
            "name the address of a cluster"
        )
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "the executor 'ray'") from None
    return ray


@contextmanager
def joined(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster at the address; without one, to a new cluster that nobody else can reach.

    Where the caller has called `ray.init` already, that cluster is used, and stays.
    """
    known = sys.modules.get("ray")
    if known is not None and known.is_initialized():
        if address is not None:
            raise ConfigError(
                f"this process has joined a Ray cluster already: leave address {address} out"
            )
        yield known
        return
    ray = import_ray(alone=address is None)
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with _signals_kept():
        if address is None:
            _start_here(ray, settings)
        else:
            _join(ray, address, settings)
    try:
        yield ray
    finally:
        ray.shutdown()


def _start_here(ray: Any, settings: Mapping[str, Any]) -> None:
    context = ray.init(
        address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **settings
    )
    host = context.address_info["node_ip_address"]
    if not host.startswith("127."):
        ray.shutdown()
        raise ConfigError(
            f"expected Ray to listen to this machine alone, found it at {host}: start Ray yourself by "
            "`ray start --head`, and name its address"
        )


def _join(ray: Any, address: str, settings: Mapping[str, Any]) -> None:
    try:
        if address != "auto":  # asked first, since Ray itself keeps on trying for a minute
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address=address, **settings)
    except Exception as error:  # OSError, ValueError, RuntimeError, by what is wrong with it
        with suppress(Exception):
            ray.shutdown()
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(
            f"no Ray cluster to join at address {address}: give HOST:PORT as `ray start --head` prints it, on a "
            "machine of that cluster that has its token (~/.ray/auth_token of the first one), or leave the address out "
            f"to use this machine alone. Ray says: {said[0]}"
        ) from error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it starts a cluster; the command has its own way of ending."""
    main = threading.current_thread() is threading.main_thread()
    before = (
        {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if main
        else {}
    )
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def packed(made_from: object) -> bytes:
    """An object with the network in it, and with all code of yours that the workers may not have."""
    from ray import cloudpickle

    own = [module for name, module in list(sys.modules.items()) if _is_yours(name, module)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(made_from)
    except Exception as error:  # a network of the user's may hold anything
        raise ModelError(
            f"the network cannot be sent to other processes: {type(error).__name__}: {error}. Keep files, locks and "
            "connections out of it, or certify without Ray"
        ) from error
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return content


def _is_yours(name: str, module: ModuleType) -> bool:
    """Whether a module was installed by nobody: it lies in a folder of the user's, and only on this machine."""
    file = getattr(module, "__file__", None)
    if (
        not file
        or name.partition(".")[0] in ("smoothcert", "__main__", "__mp_main__")
        or module.__name__ != name
    ):
        return False
    places = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    path = Path(file).resolve()
    return (
        not any(path.is_relative_to(Path(place).resolve()) for place in places)
        and "site-packages" not in path.parts
    )
