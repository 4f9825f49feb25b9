"""Does every update come to an end, whatever happens on the way?"""

import hypothesis.strategies as st
from hypothesis import given
from shoal_agent.updater.steps import STEPS
from shoal_agent.updater.transitions import BOUNDS, SUPERSEDABLE, TRANSITIONS, Outcome, follow
from shoal_wire.update import TERMINAL, UpdateState

BEFORE_THE_SWITCH = {UpdateState.PLANNING, UpdateState.FETCHING, UpdateState.VERIFYING, UpdateState.CHECKING}


@given(st.lists(st.sampled_from(Outcome), min_size=len(UpdateState), max_size=len(UpdateState)))
def test_any_outcomes_in_any_order_end_in_a_terminal_state(outcomes: list[Outcome]) -> None:
    state = UpdateState.PLANNING
    for outcome in outcomes:
        if state in TERMINAL:
            break
        # An outcome that this state doesn't know can't be: the step that would raise it isn't there.
        state = follow(state, outcome if (state, outcome) in TRANSITIONS else Outcome.EXHAUSTED)
    assert state in TERMINAL


def test_terminal_states_lead_nowhere_and_all_others_somewhere() -> None:
    leading = {state for state, _ in TRANSITIONS}
    assert leading == set(UpdateState) - TERMINAL


def test_every_state_that_leads_somewhere_has_a_step_a_bound_and_an_end_by_exhaustion() -> None:
    leading = set(UpdateState) - TERMINAL
    assert set(STEPS) == set(BOUNDS) == leading
    assert all((state, Outcome.EXHAUSTED) in TRANSITIONS for state in leading)
    assert all(bound.attempts >= 2 for bound in BOUNDS.values())


def test_only_what_has_not_switched_is_refused_or_superseded() -> None:
    assert SUPERSEDABLE == BEFORE_THE_SWITCH
    refused = {state for (state, _), after in TRANSITIONS.items() if after is UpdateState.REFUSING}
    assert refused == BEFORE_THE_SWITCH


def test_failure_after_the_switch_goes_back() -> None:
    for state in (UpdateState.SWITCHING, UpdateState.PROBATION):
        assert follow(state, Outcome.FAILED) is UpdateState.FALLING_BACK
        assert follow(state, Outcome.EXHAUSTED) is UpdateState.FALLING_BACK
