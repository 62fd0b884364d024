// SPDX-License-Identifier: MIT
#include "src/bringup/negotiation_core.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/bringup/disagreement.hpp"
#include "src/bringup/gather_offer.hpp"
#include "src/bringup/peer_errors.hpp"
#include "src/bringup/probe_pair.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

static_assert(offer::max_encoded_bytes <= max_bringup_bytes);

constexpr auto call_name = "connect_queue_pair";
// If a port keeps changing, the negotiation fails after this many rounds.
constexpr int max_rounds = 5;
constexpr auto port_interval = std::chrono::milliseconds(5);
constexpr auto probe_interval = std::chrono::milliseconds(1);

bool is_usable(const offer& of) {
  return of.port_up && (of.link_layer == link_layer::infiniband || !of.gids.empty());
}

bool wants_probe(const offer& of, probing wanted) {
  if (!is_usable(of) || of.fabric == fabric::iwarp || wanted == probing::never) return false;
  if (of.transport == offered_transport::ud) return false;
  const bool crosses_hosts = of.fabric == fabric::network || of.fabric == fabric::soft_network;
  return wanted == probing::always || (crosses_hosts && of.link_layer == link_layer::ethernet);
}

}  // namespace

address_vector path_of(const negotiated& what, const connection_wishes& wishes) {
  const auto& [agreed, ours, theirs] = what;
  auto path = address_vector::along(wishes.route);
  path.lid = theirs.lid;
  if (agreed.our_gid && agreed.their_gid) {
    path.source_gid_index = ours.gids[*agreed.our_gid].index;
    path.gid = theirs.gids[*agreed.their_gid].gid;
  }
  return path;
}

negotiation_core::negotiation_core(const negotiating_side& side, const negotiation_options& options,
                                   negotiation_peer peer)
    : side_(side),
      probing_(options.probing),
      port_timeout_(options.port_timeout),
      own_message_(options.message.begin(), options.message.end()),
      peer_(std::move(peer)) {
  VERBENA_ASSERT(own_message_.size() <= max_ready_bytes,
                 "negotiation_options::message exceeds max_ready_bytes");
  if (peer_.version) {
    begin_frames(*peer_.version);
  } else {
    const auto greeting = encode_greeting(supported_versions);
    out_.assign(greeting.begin(), greeting.end());
  }
}

negotiation_core::~negotiation_core() = default;

negotiation_status negotiation_core::status() const noexcept {
  switch (phase_) {
    case phase::round:
    case phase::port:
    case phase::probe:
      return negotiation_status::waiting_for_device;
    case phase::receives:
      return negotiation_status::waiting_for_receives;
    case phase::finished:
      return negotiation_status::finished;
    case phase::failed:
      return negotiation_status::failed;
    case phase::greeting:
    case phase::offer:
    case phase::verdict:
    case phase::endpoint:
    case phase::ready:
      break;
  }
  return negotiation_status::waiting_for_peer;
}

void negotiation_core::sent(std::size_t count) {
  VERBENA_ASSERT(count <= outgoing().size(), "sent() with more bytes than outgoing() has");
  sent_ += count;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

std::size_t negotiation_core::bytes_wanted() const noexcept {
  if (phase_ == phase::finished || phase_ == phase::failed) return 0;
  if (phase_ == phase::greeting) return greeting_.size() - greeting_count_;
  return decoder_.missing();
}

std::size_t negotiation_core::received(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && bytes_wanted() != 0) {
    const auto piece = bytes.subspan(taken, std::min(bytes.size() - taken, bytes_wanted()));
    taken += piece.size();
    if (phase_ == phase::greeting) {
      std::ranges::copy(piece, greeting_.begin() + static_cast<std::ptrdiff_t>(greeting_count_));
      greeting_count_ += piece.size();
      continue;
    }
    std::ranges::copy(piece, decoder_.room().begin());
    if (auto decoded = decoder_.filled(piece.size()); !decoded)
      fail(about(decoded.error(), peer_.name));
  }
  return taken;
}

void negotiation_core::advance(time_point now) {
  next_.reset();
  while (step(now)) continue;
}

std::optional<negotiation_core::time_point> negotiation_core::next_advance() const noexcept {
  return next_;
}

bool negotiation_core::step(time_point now) {
  if (phase_ == phase::finished || phase_ == phase::failed) return false;
  if (decoder_.complete() && decoder_.type() == frame_type::refusal) {
    fail(refused_by(call_name, peer_.name, decoder_.take().payload));
    return false;
  }
  switch (phase_) {
    case phase::greeting:
      return read_greeting();
    case phase::round:
      port_until_ =
          port_timeout_ < time_point::max() - now ? now + port_timeout_ : time_point::max();
      phase_ = phase::port;
      return true;
    case phase::port:
      return wait_for_port(now);
    case phase::offer:
      return read_offer();
    case phase::verdict:
      return read_verdict();
    case phase::probe:
      if (poll_probe()) return true;
      next_ = now + probe_interval;
      return false;
    case phase::endpoint:
      return read_endpoint();
    case phase::ready:
      return read_ready();
    case phase::receives:
    case phase::finished:
    case phase::failed:
      break;
  }
  return false;
}

bool negotiation_core::read_greeting() {
  if (greeting_count_ < greeting_.size()) return false;
  const auto theirs = decode_greeting(greeting_);
  if (!theirs) return fail(about(theirs.error(), peer_.name)), false;
  const auto agreed = negotiate(supported_versions, *theirs);
  if (!agreed) return fail(about(agreed.error(), peer_.name)), false;
  begin_frames(*agreed);
  return phase_ != phase::failed;
}

void negotiation_core::begin_frames(std::uint16_t version) {
  peer_.version = version;
  if (version >= offers_since_version) {
    phase_ = phase::round;
  } else if (!side_.connect_to_endpoint) {
    abandon(error::protocol(call_name, peer_.name,
                            "the peer supports version 1 of the connection setup protocol, which "
                            "does not support UD; update the peer"));
  } else {
    phase_ = phase::endpoint;
    send(frame_type::endpoint, side_.own_endpoint.encode());
  }
}

bool negotiation_core::wait_for_port(time_point now) {
  auto found = gather_offer(side_);
  lacks_gid_.reset();
  if (found)
    plain_ = *std::move(found);
  else if (found.error().code() == ENODATA && now < port_until_)
    lacks_gid_ = std::move(found).error();  // the entry of `.gid_index` has no address
  else
    return abandon(std::move(found).error()), false;
  if (lacks_gid_ || (!is_usable(plain_) && now < port_until_)) {
    next_ = std::min(now + port_interval, port_until_);
    return false;
  }
  if (auto made = make_offer(); !made) return abandon(std::move(made).error()), false;
  phase_ = phase::offer;
  send(frame_type::offer, ours_.encode());
  return true;
}

result<void> negotiation_core::make_offer() {
  ours_ = plain_;
  probe_.reset();
  if (!wants_probe(ours_, probing_)) return {};
  VERBENA_TRY(probe_, probe_pair::create(side_));
  ours_.probe = probe_->offered();
  return {};
}

bool negotiation_core::read_offer() {
  const auto bytes = take(frame_type::offer);
  if (!bytes) return false;
  auto theirs = offer::decode(*bytes);
  if (!theirs) return abandon(about(theirs.error(), peer_.name)), false;
  const auto decided = decide(ours_, *theirs);
  if (!decided) return abandon(to_error(decided.error(), peer_.name)), false;
  terms_ = negotiated{.agreed = *decided, .ours = ours_, .theirs = *std::move(theirs)};
  if (!terms_->agreed.probe) probe_.reset();
  auto connected = connect_queue_pair();
  // The addresses of a port can change at any time: check that the decision is still valid.
  const auto current = gather_offer(side_);
  const bool holds = current && *current == plain_;
  if (!connected && holds) return abandon(std::move(connected).error()), false;
  const std::array verdict_byte{static_cast<std::byte>(holds ? verdict::settled : verdict::again)};
  changed_ = !holds;
  phase_ = phase::verdict;
  send(frame_type::verdict, verdict_byte);
  return true;
}

result<void> negotiation_core::connect_queue_pair() {
  const auto& wishes = side_.wishes;
  if (wishes.transport == offered_transport::ud) return {};
  auto receiving = rtr_attributes(*terms_, wishes, terms_->theirs.queue_pair);
  auto sending = queue_pair_attributes()
                     .set_state(queue_pair_state::ready_to_send)
                     .set_send_psn(ours_.queue_pair.first_psn);
  if (wishes.transport == offered_transport::rc) {
    const auto& wanted = wishes.reliability;
    receiving.set_responder_resources(terms_->agreed.theirs.reads)
        .set_min_rnr_timer(wanted.min_rnr_timer);
    sending.set_timeout(terms_->agreed.ours.timeout)
        .set_retry_count(wanted.retry_count)
        .set_rnr_retry_count(wanted.rnr_retry_count)
        .set_initiator_depth(terms_->agreed.ours.reads);
  }
  VERBENA_TRY_VOID(side_.pair.modify(side_.init));
  VERBENA_TRY_VOID(side_.pair.modify(receiving));
  VERBENA_TRY_VOID(side_.pair.modify(sending));
  return probe_ ? probe_->connect(*terms_, wishes) : result<void>();
}

result<void> negotiation_core::reset() {
  probe_.reset();
  terms_.reset();
  if (side_.wishes.transport == offered_transport::ud) return {};
  return side_.pair.modify(queue_pair_attributes().set_state(queue_pair_state::reset));
}

bool negotiation_core::read_verdict() {
  const auto bytes = take(frame_type::verdict);
  if (!bytes) return false;
  if (bytes->size() != 1 || (*bytes)[0] > std::byte{static_cast<std::uint8_t>(verdict::again)}) {
    abandon(error::protocol(call_name, peer_.name,
                            "the peer's verdict is invalid: it must be one byte, 0 or 1"));
    return false;
  }
  if (changed_ || static_cast<verdict>((*bytes)[0]) == verdict::again) return begin_again();
  if (!probe_) return settle();
  if (auto begun = probe_->begin(); !begun) return abandon(std::move(begun).error()), false;
  phase_ = phase::probe;
  return true;
}

bool negotiation_core::begin_again() {
  if (auto done = reset(); !done) return abandon(std::move(done).error()), false;
  if (++rounds_ == max_rounds) {
    abandon(error::timed_out(call_name, peer_.name,
                             "a port changed its addresses or its state in each of " +
                                 std::to_string(max_rounds) + " attempts"));
    return false;
  }
  phase_ = phase::round;
  return true;
}

bool negotiation_core::poll_probe() {
  auto done = probe_->poll(*terms_, peer_.name);
  if (!done.has_value()) return abandon(std::move(done).error()), false;
  return *done && settle();
}

bool negotiation_core::settle() {
  log(log_level::debug, "bring-up with " + peer_.name + ": " +
                            to_string(terms_->agreed, terms_->ours, terms_->theirs));
  phase_ = phase::receives;
  return true;
}

bool negotiation_core::read_endpoint() {
  const auto bytes = take(frame_type::endpoint);
  if (!bytes) return false;
  const auto theirs = endpoint::decode(*bytes);
  if (!theirs) return abandon(about(theirs.error(), peer_.name)), false;
  if (auto done = side_.connect_to_endpoint(side_.pair, *theirs); !done)
    return abandon(std::move(done).error()), false;
  phase_ = phase::receives;
  return true;
}

void negotiation_core::set_ready() {
  VERBENA_ASSERT(
      phase_ == phase::receives,
      "set_ready() of a negotiation that is not waiting for receives: check status() first");
  const bool has_messages = *peer_.version >= messages_since_version;
  phase_ = phase::ready;
  send(frame_type::ready,
       has_messages ? std::span<const std::byte>(own_message_) : std::span<const std::byte>());
}

bool negotiation_core::read_ready() {
  auto bytes = take(frame_type::ready);
  if (!bytes) return false;
  if (!bytes->empty() && *peer_.version < messages_since_version) {
    abandon(error::protocol(call_name, peer_.name,
                            "the peer's `ready` has " + std::to_string(bytes->size()) +
                                " bytes; in version " + std::to_string(*peer_.version) +
                                " it is empty"));
    return false;
  }
  message_ = *std::move(bytes);
  probe_.reset();  // the negotiation may outlive the protection domain of the queue pair
  phase_ = phase::finished;
  return false;
}

std::optional<std::vector<std::byte>> negotiation_core::take(frame_type type) {
  if (!decoder_.complete()) return std::nullopt;
  auto got = decoder_.take();
  if (got.type == type) return std::move(got.payload);
  abandon(unexpected_frame(call_name, peer_.name, got.type, type));
  return std::nullopt;
}

void negotiation_core::send(frame_type type, std::span<const std::byte> payload) {
  const auto bytes = encode_frame(type, payload);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void negotiation_core::fail(error why) {
  failure_ = std::move(why);
  phase_ = phase::failed;
  probe_.reset();
  next_.reset();
  out_.clear();
  sent_ = 0;
}

void negotiation_core::abandon(error why) {
  if (phase_ == phase::finished || phase_ == phase::failed) return;
  failure_ = std::move(why);
  phase_ = phase::failed;
  probe_.reset();
  next_.reset();
  if (!peer_.version) return;  // without a greeting, the peer cannot parse a frame
  const auto text = failure_->message();
  send(frame_type::refusal, bytes_of(std::string_view(text).substr(0, max_refusal_bytes)));
}

void negotiation_core::peer_closed() {
  if (phase_ == phase::finished || phase_ == phase::failed) return;
  fail(closed_by(peer_.name));
}

void negotiation_core::time_out() {
  // abandon() would send an error behind the bytes that the peer does not read.
  if (phase_ == phase::finished && !outgoing().empty())
    return fail(error::timed_out(call_name, peer_.name,
                                 "the peer did not read the last bytes of this side in time"));
  switch (phase_) {
    case phase::round:
    case phase::port: {
      if (lacks_gid_)
        return abandon(error::timed_out(call_name, peer_.name, lacks_gid_->message()));
      const auto reason = plain_.port_up ? mismatch::no_gid : mismatch::port_down;
      return abandon(
          error::timed_out(call_name, peer_.name, words_of(reason, side::ours, plain_, plain_)));
    }
    case phase::probe:
      return abandon(
          error::timed_out(call_name, peer_.name, "the probe message did not complete in time"));
    case phase::receives:
      return abandon(
          error::timed_out(call_name, peer_.name, "the program did not post its receives in time"));
    default:
      return abandon(silent(call_name, peer_.name, decoder_.started()));
  }
}

const error& negotiation_core::failure() const {
  VERBENA_ASSERT(failure_.has_value(),
                 "failure() of a negotiation that did not fail: check status() first");
  return *failure_;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
