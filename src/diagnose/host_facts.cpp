// SPDX-License-Identifier: MIT
#include "verbena/diagnose/host_facts.hpp"

#include "src/diagnose/files.hpp"
#include "src/diagnose/gather.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

host_facts gather_host_facts(const fact_sources& from) {
  host_facts facts;
  facts.root = from.root;
  facts.kernel_release = detail::read_line(detail::below(from.root, "proc/sys/kernel/osrelease"));
  detail::gather_kernel(facts);
  detail::gather_process(facts, from);
  facts.wire = gather_wire_settings(from);
  return facts;
}

bool kernel_is_at_least(const std::string& release, unsigned major, unsigned minor) {
  const auto dot = release.find('.');
  if (dot == std::string::npos) return true;
  const auto end = release.find_first_not_of("0123456789", dot + 1);
  const auto first = detail::number_of(std::string_view(release).substr(0, dot));
  const auto second = detail::number_of(std::string_view(release).substr(dot + 1, end - (dot + 1)));
  if (!first || !second) return true;
  return *first != major ? *first > major : *second >= minor;
}

}  // namespace verbena::inline VERBENA_ABI::diagnose
