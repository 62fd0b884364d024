// SPDX-License-Identifier: MIT
// The parts of gather_host_facts().
#pragma once

#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Reads modules, devices and their files, adapters, network interfaces and routes.
void gather_kernel(host_facts& out);
/// Reads limits, capabilities, namespaces and control groups of this process.
void gather_process(host_facts& out, const fact_sources& from);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
