// SPDX-License-Identifier: MIT
// The entry of a client into its group: hello, proof of the secret, admission.
#include <algorithm>
#include <optional>
#include <utility>

#include "src/net/store_server.hpp"
#include "verbena/base/random.hpp"
#include "verbena/net/membership.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

void store_server::refuse(store_session& from, const store_failed& why) {
  count([](auto& of) { ++of.refused; });
  auto message = encode(why);
  // A list of ranks can be longer than a greeting.
  from.stream.set_max_blob_bytes(std::max(max_greeting_bytes, message.size()));
  answer(from, std::move(message));
}

void store_server::greet(store_session& from, store_hello hello) {
  if (hello.version != store_version) return refuse(from, {.why = store_failure::other_version});
  if (options_.secret.empty()) return admit(from, hello);
  challenge(from, std::move(hello));
}

void store_server::challenge(store_session& from, store_hello hello) {
  nonce random{};
  fill_random(random);
  const digest proof = prove(options_.secret, "store", hello, random);
  from.unproved.emplace(std::move(hello), random);
  answer(from, encode(store_challenge{.random = random, .proof = proof}));
}

void store_server::check_proof(store_session& from, const store_proof& proof) {
  const auto [hello, random] = *std::exchange(from.unproved, std::nullopt);
  if (!are_equal(proof.proof, prove(options_.secret, "rank", hello, random)))
    return refuse(from, {.why = store_failure::other_secret});
  admit(from, hello);
}

store_group* store_server::find_group(const store_hello& of) {
  const auto found = std::ranges::find_if(
      groups_, [&](const auto& each) { return each.name == of.name && !each.has_ended; });
  if (found == groups_.end()) return nullptr;
  if (found->has_formed || found->can_form() || of.entry == store_entry::rejoins ||
      of.rank >= of.size)
    return &*found;
  const auto& ranks = found->ranks;
  const bool has_place =
      ranks.size() == of.size && ranks[of.rank].session == nullptr && !ranks[of.rank].gone;
  if (has_place) return &*found;
  // A process of the failed group may be stopped and stay connected.
  found->has_ended = true;
  return nullptr;
}

void store_server::admit(store_session& from, const store_hello& hello) {
  if (admitted_ >= options_.max_clients) return refuse(from, {.why = store_failure::full});
  auto* found = find_group(hello);
  const bool rejoins = hello.entry == store_entry::rejoins;
  if (found == nullptr) {
    if (rejoins) return refuse(from, without_members());
    if (groups_.size() >= options_.max_groups || hello.rank >= hello.size || hello.size > max_ranks)
      return refuse(from, {.why = store_failure::full});
    found = &groups_.emplace_back(hello.name, hello.size, options_, bytes_of_values_);
  }
  store_group& group = *found;
  if (group.size() != hello.size || hello.rank >= group.size())
    return refuse(from, {.why = store_failure::other_size, .rank = group.size()});
  auto& place = group.ranks[hello.rank];
  if (place.session != nullptr)
    return refuse(from, {.why = store_failure::duplicate, .ranks = {hello.rank}});
  if (rejoins && !group.has_formed)
    return refuse(from,
                  {.why = store_failure::forming, .ranks = group.ranks_that([](const auto& each) {
                     return each.session == nullptr;
                   })});
  place.waits = rejoins;
  if (place.gone && !place.waits)
    return refuse(from, {.why = store_failure::gone, .ranks = {hello.rank}});
  if (place.waits) {
    place.gone = true;
    group.note_change(hello.rank);
  }
  place.session = &from;
  from.until = deadline::never();
  from.stream.set_max_blob_bytes(options_.max_message_bytes);
  ++group.connected;
  ++admitted_;
  from.group = &group;
  from.rank = hello.rank;
  answer(from, encode_admission(options_.max_message_bytes));
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
