"""Tests of benches: they begin with a unit after reset, and get what their parameters name."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from inspect import isawaitable, signature
from typing import Any

import cocotb

from xpulpnn_sim.benches.agents.base import Dut, start
from xpulpnn_sim.benches.agents.scoreboard import Scoreboard

Test = Callable[..., Coroutine[Any, Any, None]]


def _named(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the parameters of a function name."""
    names = signature(function, follow_wrapped=False).parameters.keys()
    return {name: value for name, value in values.items() if name in names}


def unit_test(
    *options: tuple[Sequence[str], Sequence[Sequence[Any]]],
    env: Callable[..., Any] = lambda: None,
    inputs: Sequence[str] = (),
    timeout_us: int = 10_000,
    skip: bool = False,
    **values: Sequence[Any],
) -> Callable[[Test], Any]:
    """Return a decorator that makes a function a test of cocotb, which runs after a reset with ``inputs`` at 0.

    A parameter ``dut`` of the function is the unit, ``rng`` the source of all random stimuli, ``board`` a scoreboard;
    ``env`` is what the function or coroutine ``env`` returns, which may have the same parameters. If that is a context
    manager, the test runs in its context. ``options`` and ``values`` are those of ``cocotb.parametrize``.
    """

    def decorate(test: Test) -> Any:
        @wraps(test)
        async def run(dut: Dut, **chosen: Any) -> None:
            given = {"dut": dut, "rng": await start(dut, *inputs), "board": Scoreboard(), **chosen}
            made = env(**_named(env, given))
            made = await made if isawaitable(made) else made
            with made if isinstance(made, AbstractContextManager) else nullcontext(made) as entered:
                await test(**_named(test, {**given, "env": entered}))

        parameters = [*options, *values.items()]
        made = cocotb.parametrize(*parameters)(run) if parameters else run
        return cocotb.test(timeout_time=timeout_us, timeout_unit="us", skip=skip)(made)

    return decorate
