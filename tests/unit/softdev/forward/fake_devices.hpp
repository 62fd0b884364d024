// SPDX-License-Identifier: MIT
// What a fake library tells the tests: how often each of its functions was called.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" {

/// Calls of the function of that name so far; -1 when the library has no such function.
typedef int (*fake_calls_function)(const char* name);
/// The library's one device.
typedef ibv_device* (*fake_device_function)();
}
