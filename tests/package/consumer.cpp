// SPDX-License-Identifier: MIT
// What every consumer project builds: finds the software device through the installed (or included)
// library and registers memory with it. Prints one line that the tests look for.
#include <verbena/efa/device_attributes.hpp>
#include <verbena/efa/srd.hpp>
#include <verbena/verbena.hpp>

#include <cstdio>

int main() {
  auto context = verbena::open_device("soft0").value();
  auto pd = context.allocate_pd().value();
  auto region = pd.allocate(4096, verbena::access::local_write).value();
  auto system = verbena::system_provider();
  std::printf("consumer: soft0 registered %zu bytes; system verbs: %s\n", region.bytes().size(),
              system ? verbena::to_string((*system)->origin) : "none");
  // The part of the library that needs hwloc, if it was built with it.
  const auto placed = verbena::buffer_pool::create(
      pd, {.placement = verbena::numa_placement::on_node(0, verbena::numa_binding::preferred)});
  std::fprintf(stderr, "placement: %s\n", placed ? "done" : placed.error().message().c_str());
  // By default soft0 is not an EFA. is_efa() does not need libefa.
  return verbena::efa::is_efa(context) ? 1 : 0;
}
