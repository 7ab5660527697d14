// The header as C++ sees it.
#include "antiphase_gate.h"

#include <cstddef>
#include <type_traits>

static_assert(sizeof(antiphase_step) == 40, "the layout of antiphase_step");
static_assert(alignof(antiphase_step) == 8, "the layout of antiphase_step");
static_assert(offsetof(antiphase_step, outcome) == 0 && offsetof(antiphase_step, reason) == 4, "the layout of antiphase_step");
static_assert(offsetof(antiphase_step, held_ns) == 8 && offsetof(antiphase_step, late_ns) == 16, "the layout of antiphase_step");
static_assert(offsetof(antiphase_step, start_ns) == 24 && offsetof(antiphase_step, plan_version) == 32, "the layout of antiphase_step");
static_assert(std::is_trivially_copyable<antiphase_step>::value, "plain data");

int main() {
    antiphase_gate *gate = antiphase_gate_open("no-such-job", "/nonexistent");
    const int32_t outcome = antiphase_gate_step(gate, nullptr);
    antiphase_gate_close(gate);
    return outcome == ANTIPHASE_FAIL_OPEN ? 0 : 1;
}
