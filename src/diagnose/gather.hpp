// SPDX-License-Identifier: MIT
// The parts of gather_host_facts().
#pragma once

#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Modules, devices and their files, adapters, network interfaces, routes.
void gather_kernel(host_facts& out);
/// Limits, capabilities, namespaces, control groups of this process.
void gather_process(host_facts& out, const fact_sources& from);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
