// SPDX-License-Identifier: MIT
// Compares channel operations with equivalent C code. Both use a soft0 context with replaced
// data-path functions: post functions record the identifiers of the requests, and ibv_poll_cq
// returns them as successful completions. Each case is a function named case_*:
//   --count N       calls every case N times and prints its name; callgrind counts the instructions
//                   of the cases
//   --allocations   prints the number of allocations of one call of every case, and of an exchange
//                   of messages over message channels with the unmodified data path
// bench/harness/channel.py reads the output lines, `name number`.
#include <infiniband/verbs.h>

#include <array>
#include <asio/io_context.hpp>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/asio.hpp"
#include "verbena/async.hpp"
#include "verbena/verbena.hpp"

namespace {

// The outstanding requests. The C++ and the C cases share the queue.
struct device {
  std::array<std::uint64_t, 64> ids;
  unsigned posted = 0;
  unsigned polled = 0;
};
device the_device;

template <class Request>
int post(ibv_qp* /*queue*/, Request* list, Request** /*bad*/) {
  for (; list != nullptr; list = list->next) the_device.ids[the_device.posted++ % 64] = list->wr_id;
  return 0;
}
int poll(ibv_cq* /*queue*/, int count, ibv_wc* out) {
  int found = 0;
  while (found < count && the_device.polled != the_device.posted) {
    ibv_wc& wc = out[found++];
    wc.wr_id = the_device.ids[the_device.polled++ % 64];
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = IBV_WC_RDMA_WRITE;
    wc.byte_len = 64;
    wc.wc_flags = 0;
    wc.qp_num = 1;
  }
  return found;
}

std::size_t allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

// Suspends a coroutine until the next call of its case.
struct next_call {
  std::coroutine_handle<>& waiting;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members)
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) const noexcept { waiting = caller; }
  void await_resume() const noexcept {}
};

// Coroutines that write and receive, sixteen times in each call. They never end.
struct coroutines {
  verbena::async::engine engine;
  verbena::async::channel channel;
  std::array<std::coroutine_handle<>, 16> writes;
  std::array<std::coroutine_handle<>, 16> receives;
  std::uint64_t done = 0;
};

// Handlers of Asio that write and receive, sixteen times in each call.
struct handlers {
  asio::io_context& io;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members)
  verbena::asio::engine engine;
  verbena::asio::channel channel;
  verbena::source from;
  verbena::remote_region to;
  verbena::sink into;
  std::uint64_t done = 0;
};

struct objects {
  verbena::context context;
  verbena::protection_domain pd;
  verbena::channel channel;
  verbena::memory_region region;
  verbena::buffer_pool pool;
  ibv_qp* qp;
  ibv_cq* cq;
  ibv_sge slot;
  verbena::remote_region remote;
  std::optional<verbena::buffer> buffer;
  verbena::source from;
  verbena::sink into;
  coroutines* awaited;  // never destroyed: their coroutines wait for the next call
  handlers* called;
};

namespace {

verbena::async::detail::started_coroutine write_in_calls(coroutines& with,
                                                         std::coroutine_handle<>& self,
                                                         verbena::source from,
                                                         verbena::remote_region to) {
  while (true) {
    co_await next_call{self};
    for (int i = 0; i < 16; ++i)
      with.done += (co_await with.channel.write(from, to)).has_value() ? 1 : 0;
  }
}
verbena::async::detail::started_coroutine receive_in_calls(coroutines& with,
                                                           std::coroutine_handle<>& self,
                                                           const verbena::sink& into) {
  while (true) {
    co_await next_call{self};
    for (int i = 0; i < 16; ++i)
      with.done += (co_await with.channel.receive(into)).has_value() ? 1 : 0;
  }
}

coroutines* make_coroutines(const verbena::context& context, const verbena::protection_domain& pd) {
  auto engine = verbena::async::engine::create(context).value();
  auto prepared =
      pd.create_channel(engine.hub(), {.access = verbena::access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto channel = std::move(prepared).handshake(self).value();
  verbena::async::channel awaited(engine, std::move(channel));
  return new coroutines{std::move(engine), std::move(awaited), {}, {}};
}

// Each coroutine has one operation in flight.
std::uint64_t run_call(coroutines& with, std::span<const std::coroutine_handle<>> which) {
  const std::uint64_t until = with.done + 16 * which.size();
  for (const auto each : which) each.resume();
  while (with.done != until) with.engine.poll();
  return 7;
}

struct write_again {
  handlers* with;
  int left = 16;
  void operator()(std::error_code /*code*/, const verbena::operation_result& result) {
    with->done += result.has_value() ? 1 : 0;
    if (--left != 0) with->channel.async_write(with->from, with->to, *this);
  }
};
struct receive_again {
  handlers* with;
  int left = 16;
  void operator()(std::error_code /*code*/, const verbena::operation_result& result) {
    with->done += result.has_value() ? 1 : 0;
    if (--left != 0) with->channel.async_receive(with->into, *this);
  }
};

// Each of `count` handlers has one operation in flight.
template <class Handler>
std::uint64_t run_handlers(handlers& with, int count) {
  const std::uint64_t until = with.done + 16 * static_cast<std::uint64_t>(count);
  for (int i = 0; i < count; ++i) {
    Handler first{&with};
    if constexpr (std::is_same_v<Handler, write_again>)
      with.channel.async_write(with.from, with.to, first);
    else
      with.channel.async_receive(with.into, first);
  }
  with.io.restart();
  with.io.run();
  return with.done == until ? 7 : 1;
}

handlers* make_handlers(const verbena::context& context, const verbena::protection_domain& pd,
                        const verbena::memory_region& region) {
  auto* const io = new asio::io_context(1);
  auto engine = verbena::asio::engine::create(context, *io).value();
  auto prepared =
      pd.create_channel(engine.hub(), {.access = verbena::access::remote_write}).value();
  const auto self = prepared.endpoint();
  verbena::asio::channel channel(engine, std::move(prepared).handshake(self).value());
  return new handlers{*io,
                      std::move(engine),
                      std::move(channel),
                      verbena::source(region, 0, 64),
                      region.remote(),
                      verbena::sink(region, 192, 64)};
}

objects make() {
  auto context = verbena::open_device("soft0").value();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel({.access = verbena::access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto channel = std::move(prepared).handshake(self).value();
  auto region =
      pd.allocate(4096, verbena::access::local_write | verbena::access::remote_write).value();
  auto pool = verbena::buffer_pool::create(pd, {}).value();
  auto buffer = pool.take(64);
  auto* const queue = channel.qp();
  if (queue == nullptr) std::abort();  // a new channel has a queue pair
  ibv_qp* const qp = queue->native();
  const auto remote = region.remote();
  const auto slot = region.slice(0, 64).native();
  verbena::source from(region, 0, 64);
  verbena::sink into(region, 64, 64);
  ibv_cq* const cq = qp->send_cq;
  coroutines* const awaited = make_coroutines(context, pd);
  handlers* const called = make_handlers(context, pd, region);
  static std::vector<verbena::sink> sinks;
  for (std::size_t i = 0; i < awaited->writes.size(); ++i) {
    write_in_calls(*awaited, awaited->writes.at(i), from, remote);
    sinks.emplace_back(region, 128 + i * 64, 64);
  }
  for (std::size_t i = 0; i < sinks.size(); ++i)
    receive_in_calls(*awaited, awaited->receives.at(i), sinks[i]);
  ibv_context_ops& ops = qp->context->ops;
  ops.post_send = &post<ibv_send_wr>;
  ops.post_recv = &post<ibv_recv_wr>;
  ops.poll_cq = &poll;
  return {std::move(context),
          std::move(pd),
          std::move(channel),
          std::move(region),
          std::move(pool),
          qp,
          cq,
          slot,
          remote,
          std::move(buffer),
          from,
          std::move(into),
          awaited,
          called};
}

const verbena::abort_at never;

std::uint64_t poll_one(ibv_cq* cq) {
  ibv_wc wc;
  int found = 0;
  while ((found = ibv_poll_cq(cq, 1, &wc)) == 0) {
  }
  if (found < 0 || wc.status != IBV_WC_SUCCESS) return 1;
  return wc.wr_id;
}

}  // namespace

#define CASE(name) [[gnu::noinline]] std::uint64_t case_##name(objects& with)

extern "C" {

CASE(raw_write) {
  ibv_sge sge = with.slot;
  ibv_send_wr wr;
  ibv_send_wr* bad = nullptr;
  wr.wr_id = 7;
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = with.remote.address();
  wr.wr.rdma.rkey = with.remote.key().value();
  if (ibv_post_send(with.qp, &wr, &bad) != 0) return 1;
  return poll_one(with.cq);
}
CASE(raw_receive) {
  ibv_sge sge = with.slot;
  ibv_recv_wr wr;
  ibv_recv_wr* bad = nullptr;
  wr.wr_id = 7;
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (ibv_post_recv(with.qp, &wr, &bad) != 0) return 1;
  return poll_one(with.cq);
}
CASE(blocking_write) {
  return with.channel.write(with.from, with.remote, never).has_value() ? 7 : 1;
}
CASE(blocking_receive) { return with.channel.receive(with.into, never).has_value() ? 7 : 1; }
CASE(scoped_write_16) {
  return with.channel.manual_scope(never, [&](verbena::operation_scope& scope) {
    std::uint64_t sum = 0;
    for (int i = 0; i < 16; ++i) {
      auto written = scope.write(with.from, with.remote);
      sum += written.wait().has_value() ? 7 : 1;
    }
    return sum;
  });
}
CASE(scoped_receive_16) {
  return with.channel.manual_scope(never, [&](verbena::operation_scope& scope) {
    std::uint64_t sum = 0;
    verbena::sink into = std::move(with.into);
    for (int i = 0; i < 16; ++i) {
      auto received = scope.receive(std::move(into));
      sum += received.wait().has_value() ? 7 : 1;
      into = received.take_sink();
    }
    with.into = std::move(into);
    return sum;
  });
}
CASE(coroutine_write) { return run_call(*with.awaited, std::span(with.awaited->writes).first(1)); }
CASE(coroutine_receive) {
  return run_call(*with.awaited, std::span(with.awaited->receives).first(1));
}
CASE(coroutine_write_16) { return run_call(*with.awaited, with.awaited->writes); }
CASE(coroutine_receive_16) { return run_call(*with.awaited, with.awaited->receives); }
CASE(asio_write) { return run_handlers<write_again>(*with.called, 1); }
CASE(asio_receive) { return run_handlers<receive_again>(*with.called, 1); }
CASE(asio_write_16) { return run_handlers<write_again>(*with.called, 16); }
CASE(asio_receive_16) { return run_handlers<receive_again>(*with.called, 16); }
CASE(unpolled_write) {
  auto pending = with.channel.post_write(std::move(*with.buffer), with.remote, {.length = 64});
  const bool good = pending.wait().has_value();
  *with.buffer = pending.take_buffer();
  return good ? 7 : 1;
}

}  // extern "C"

namespace {

// Both sides of a message connection, in one process.
struct message_pair {
  verbena::context context;
  verbena::protection_domain pd;
  verbena::message_channel one;
  verbena::message_channel other;
};

message_pair make_messages() {
  auto context = verbena::open_device("soft0").value();
  auto pd = context.allocate_pd().value();
  const verbena::message_channel_options options{.message_bytes = 1024,
                                                 .credits = verbena::credits::required};
  auto one = verbena::message_channel::prepare(pd, options).value();
  auto other = verbena::message_channel::prepare(pd, options).value();
  const auto to_one = one.endpoint();
  const auto to_other = other.endpoint();
  auto left = std::move(one).handshake(to_other).value();
  auto right = std::move(other).handshake(to_one).value();
  return {std::move(context), std::move(pd), std::move(left), std::move(right)};
}

// Sends more messages in each direction than the receive queue holds. Every other message is sent
// by copy, the others from channel buffers. Returns the number of received messages.
std::uint64_t exchange(message_pair& with) {
  constexpr std::uint64_t messages = 1000;
  const std::array<std::byte, 200> bytes{};
  std::uint64_t taken = 0;
  const auto send = [&](verbena::message_channel& from, std::uint64_t number) {
    if (number % 2 == 0) return bool{from.try_send(bytes)};
    auto outbox = from.take_buffer();
    return outbox && from.try_send(std::move(*outbox), {.length = 1024});
  };
  std::uint64_t from_one = 0;
  std::uint64_t from_other = 0;
  while (taken < 2 * messages) {
    while (from_one < messages && send(with.one, from_one)) ++from_one;
    while (from_other < messages && send(with.other, from_other)) ++from_other;
    for (auto* const side : {&with.one, &with.other}) {
      if (side->failure() != nullptr) verbena::raise(side->describe());
      while (side->try_receive()) ++taken;
    }
  }
  return taken;
}

struct one_case {
  const char* name;
  std::uint64_t (*function)(objects&);
};
constexpr std::array cases = {
    one_case{"raw_write", case_raw_write},
    one_case{"raw_receive", case_raw_receive},
    one_case{"blocking_write", case_blocking_write},
    one_case{"blocking_receive", case_blocking_receive},
    one_case{"scoped_write_16", case_scoped_write_16},
    one_case{"scoped_receive_16", case_scoped_receive_16},
    one_case{"coroutine_write", case_coroutine_write},
    one_case{"coroutine_receive", case_coroutine_receive},
    one_case{"coroutine_write_16", case_coroutine_write_16},
    one_case{"coroutine_receive_16", case_coroutine_receive_16},
    one_case{"asio_write", case_asio_write},
    one_case{"asio_receive", case_asio_receive},
    one_case{"asio_write_16", case_asio_write_16},
    one_case{"asio_receive_16", case_asio_receive_16},
    one_case{"unpolled_write", case_unpolled_write},
};
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  objects with = make();
  std::uint64_t sum = 0;
  if (std::strcmp(argv[1], "--allocations") == 0) {
    for (const one_case& each : cases) {
      sum += each.function(with);
      const std::size_t before = allocations;
      sum += each.function(with);
      std::printf("%s %zu\n", each.name, allocations - before);
    }
    message_pair pair = make_messages();
    sum += exchange(pair);
    const std::size_t before = allocations;
    sum += exchange(pair);
    std::printf("messages %zu\n", allocations - before);
  } else if (std::strcmp(argv[1], "--count") == 0 && argc == 3 && std::atol(argv[2]) > 0) {
    for (const one_case& each : cases) {
      for (long i = 0; i < std::atol(argv[2]); ++i) sum += each.function(with);
      std::printf("%s %d\n", each.name, 1);
    }
  } else {
    return 2;
  }
  std::fprintf(stderr, "checksum %llu\n", static_cast<unsigned long long>(sum));
  std::fflush(stdout);
  std::_Exit(0);  // skips destructors, which need the original data path
}
