// SPDX-License-Identifier: MIT
// The libraries that replace libibverbs and librdmacm.
#pragma once

#include <string>

#include "tools/verbena/options.hpp"
#include "tools/verbena/run/refusal.hpp"

namespace verbena::tool {

/// The paths of the libraries. Threads: immutable value.
struct artifacts {
  std::string folder;             ///< folder of libverbena-soft.so.0
  std::string preload;            ///< libverbena-preload.so
  std::string dropin;             ///< libibverbs.so.1
  std::string connecting_dropin;  ///< librdmacm.so.1, in the same folder
};

/// Finds the libraries relative to this program: in ../lib, or in the installation folder.
/// VERBENA_RUN_LIBRARIES overrides the folder. Refuses if a library that `chosen` needs is missing,
/// or if LD_PRELOAD cannot contain its path.
[[nodiscard]] outcome<artifacts> find_artifacts(way chosen);

}  // namespace verbena::tool
