// SPDX-License-Identifier: MIT
// The functions that produce the misconfigurations of catalogue.inc, and shared helpers.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::misconfigurations {

/// Returns the error of a result that must be a failure.
template <class Outcome>
error error_of(Outcome&& outcome) {
  if (!outcome) return std::forward<Outcome>(outcome).error();
  ADD_FAILURE() << "it did not fail";
  return error(error_kind::os, 0, "nothing failed");
}

// One function for each row.
#define GROUP(title)
#define ROW(name, kind, title, call, number, object, words) error name();
#include "tests/unit/verbs/misconfigurations/catalogue.inc"
#undef ROW
#undef GROUP

}  // namespace verbena::misconfigurations
