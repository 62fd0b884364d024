// SPDX-License-Identifier: MIT
// The forward declarations agree with the definitions: both can be included, in either order.
#include <verbena/fwd.hpp>
#include <verbena/verbena.hpp>

static_assert(sizeof(verbena::guid) == 8);
