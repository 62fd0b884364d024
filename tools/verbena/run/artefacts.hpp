// SPDX-License-Identifier: MIT
// The libraries that programs are given.
#pragma once

#include <string>

#include "tools/verbena/options.hpp"
#include "tools/verbena/run/refusal.hpp"

namespace verbena::tool {

/// Where they are. Threads: immutable value.
struct artefacts {
  std::string folder;             ///< that of libverbena-soft.so.0
  std::string preload;            ///< libverbena-preload.so
  std::string dropin;             ///< libibverbs.so.1
  std::string connecting_dropin;  ///< librdmacm.so.1, in the same folder
};

/// Finds the libraries beside this program (../lib, or where they are installed);
/// VERBENA_RUN_LIBRARIES names their folder instead. Refuses when what `chosen` needs is not there,
/// or cannot be said in LD_PRELOAD.
[[nodiscard]] outcome<artefacts> find_artefacts(way chosen);

}  // namespace verbena::tool
