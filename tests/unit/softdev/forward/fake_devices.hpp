// SPDX-License-Identifier: MIT
// Interface of the fake libraries: the numbers of calls of their functions.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" {

/// Returns the number of calls of a function, or -1 if the library does not have the function.
typedef int (*fake_calls_function)(const char* name);
/// Returns the device of the library.
typedef ibv_device* (*fake_device_function)();
}
