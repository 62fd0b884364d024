// SPDX-License-Identifier: MIT
// Tagged messages of 8 bytes per second through libfabric's provider udp;ofi_rxd, which is reliable
// over UDP, between two processes over the loopback interface, in lists of 16.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "bench/local/measure.hpp"
#include "bench/local/process_pair.hpp"

namespace {

using bench::process_pair;

constexpr std::size_t list_length = 16;
constexpr std::size_t lists = 16;
constexpr std::size_t receives = 512;
constexpr bench::repetitions times{.chunks = 10, .per_chunk = 500 * list_length};

// An endpoint that is connected to that of the other process. The objects end with the process.
class endpoint {
 public:
  explicit endpoint(const process_pair& pair) {
    fi_info* const hints = fi_allocinfo();
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = ::strdup("udp;ofi_rxd");
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &found),
          "fi_getinfo");
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_av* addresses = nullptr;
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.size = 4 * receives;
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    check(fi_fabric(found->fabric_attr, &fabric, nullptr), "fi_fabric");
    check(fi_domain(fabric, found, &domain, nullptr), "fi_domain");
    check(fi_cq_open(domain, &queue, &completions_, nullptr), "fi_cq_open");
    check(fi_av_open(domain, &table, &addresses, nullptr), "fi_av_open");
    check(fi_endpoint(domain, found, &self_, nullptr), "fi_endpoint");
    check(fi_ep_bind(self_, &completions_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(self_, &addresses->fid, 0), "fi_ep_bind");
    check(fi_enable(self_), "fi_enable");
    std::array<std::byte, 64> name{};
    std::size_t size = name.size();
    check(fi_getname(&self_->fid, name.data(), &size), "fi_getname");
    pair.send(name);
    pair.receive(name);
    if (fi_av_insert(addresses, name.data(), 1, &peer_, 0, nullptr) != 1)
      bench::fail("fi_av_insert");
  }

  void send() {
    retry([&] { return fi_tsend(self_, bytes_.data(), bytes_.size(), nullptr, peer_, 0, next()); });
  }
  void receive() {
    retry([&] {
      return fi_trecv(self_, bytes_.data(), bytes_.size(), nullptr, FI_ADDR_UNSPEC, 0, 0, next());
    });
  }
  std::size_t poll() {
    std::array<fi_cq_entry, 64> done;
    const ssize_t count = fi_cq_read(completions_, done.data(), done.size());
    if (count < 0 && count != -FI_EAGAIN) bench::fail("fi_cq_read");
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  // Completions that send() and receive() found.
  std::size_t take_found() { return std::exchange(found_, 0); }

 private:
  static void check(int code, const char* call) {
    if (code != 0) bench::fail(call);
  }
  template <class Call>
  void retry(Call call) {
    ssize_t code = 0;
    while ((code = call()) == -FI_EAGAIN) found_ += poll();
    if (code != 0) bench::fail("libfabric refused a message");
  }
  fi_context* next() { return &contexts_[used_++ % contexts_.size()]; }

  fid_ep* self_ = nullptr;
  fid_cq* completions_ = nullptr;
  fi_addr_t peer_ = 0;
  std::array<std::byte, 8> bytes_{};
  std::array<fi_context, 2 * receives> contexts_{};
  std::size_t used_ = 0;
  std::size_t found_ = 0;
};

void run_receiver(const process_pair& pair, endpoint& side) {
  for (std::size_t i = 0; i < receives; ++i) side.receive();
  pair.meet();
  for (std::size_t left = times.total(); left > 0;) {
    const std::size_t done = side.poll() + side.take_found();
    for (std::size_t i = 0; i < done; ++i) side.receive();
    left -= std::min(left, done);
  }
}

double run_sender(const process_pair& pair, endpoint& side) {
  pair.meet();
  std::size_t in_flight = 0;
  const double ns = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; i += list_length) {
      for (std::size_t k = 0; k < list_length; ++k) side.send();
      in_flight += list_length;
      do in_flight -= side.poll() + side.take_found();
      while (in_flight >= lists * list_length);
    }
  });
  while (in_flight > 0) in_flight -= side.poll() + side.take_found();
  return 1e9 / ns;
}

}  // namespace

int main() {
  const auto pair = process_pair::start();
  endpoint side(pair);
  if (pair.is_child())
    run_receiver(pair, side);
  else
    std::printf("%.3f\n", run_sender(pair, side));
  pair.meet();
  return pair.finish();
}
