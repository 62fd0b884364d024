// SPDX-License-Identifier: MIT
#include "verbena/net/multi_rail_channel.hpp"

#include <utility>

#include "src/net/rail_set.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(rail_set& of) noexcept { delete &of; }
}  // namespace detail

const error& rail_result::error() const {
  VERBENA_ASSERT(error_.has_value(), "error() of an operation that succeeded: check it first");
  return *error_;
}

result<multi_rail_channel> multi_rail_channel::connect(bringup::stream control,
                                                       std::span<const rail_port> rails,
                                                       deadline until,
                                                       const rail_options& options) {
  VERBENA_TRY(auto made,
              detail::rail_set::connect(std::move(control), rails, until, {.options = options}));
  return multi_rail_channel(made.release());
}

rail_result multi_rail_channel::write(const rail_source& data, const rail_region& to,
                                      deadline until) {
  return set_->run("multi_rail_channel::write",
                   {.direction = detail::rail_direction::write, .local = data, .remote = to},
                   until);
}

rail_result multi_rail_channel::read(const rail_sink& into, const rail_region& from,
                                     deadline until) {
  return set_->run("multi_rail_channel::read",
                   {.direction = detail::rail_direction::read,
                    .local = rail_source(into.memory(), into.offset(), into.length()),
                    .remote = from},
                   until);
}

void multi_rail_channel::progress() { set_->tend(deadline::clock::now()); }

void multi_rail_channel::take(std::uint32_t rail, const async_event& event) {
  VERBENA_ASSERT(rail < rails(), "a rail is not less than the number of rails");
  set_->take(rail, event);
}

std::uint32_t multi_rail_channel::rails() const noexcept { return set_->size(); }

rail_status multi_rail_channel::status(std::uint32_t rail) const {
  VERBENA_ASSERT(rail < rails(), "a rail is not less than the number of rails");
  return (*set_)[rail].status();
}

const error* multi_rail_channel::failure() const noexcept { return set_->failure(); }

}  // namespace verbena::inline VERBENA_ABI::net
