# SPDX-License-Identifier: MIT
"""Sends datagrams to a multicast group. Unlike mckey, keeps the address handle until the sends have completed.

usage: group_sender.py DEVICE GID_INDEX GROUP_GID COUNT"""
import sys
import time

import pyverbs.enums as enums
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

DATAGRAM_BYTES = 100
GROUP_QUEUE_PAIR = 0xffffff
QUEUE_KEY = 0x01234567  # of the connection manager's groups: RDMA_UDP_QKEY
BOUND = 20


def main(device, gid_index, group, count):
    context = Context(name=device)
    pd = PD(context)
    queue = CQ(context, count)
    region = MR(pd, DATAGRAM_BYTES, enums.IBV_ACCESS_LOCAL_WRITE)
    attributes = QPAttr(port_num=1)
    attributes.qkey = QUEUE_KEY
    pair = QP(pd, QPInitAttr(qp_type=enums.IBV_QPT_UD, scq=queue, rcq=queue, cap=QPCap(max_send_wr=count), sq_sig_all=1),
              attributes)
    address = AH(pd, attr=AHAttr(gr=GlobalRoute(dgid=GID(group), sgid_index=gid_index), is_global=1, port_num=1))
    for _ in range(count):
        request = SendWR(num_sge=1, sg=[SGE(region.buf, DATAGRAM_BYTES, region.lkey)])
        request.set_wr_ud(address, GROUP_QUEUE_PAIR, QUEUE_KEY)
        pair.post_send(request)
    end = time.monotonic() + BOUND
    done = []
    while len(done) < count:
        if time.monotonic() > end:
            sys.exit(f"{len(done)} of {count} datagrams were sent in {BOUND} s")
        done += queue.poll(count)[1]
    if any(each.status != enums.IBV_WC_SUCCESS for each in done):
        sys.exit(f"statuses: {[each.status for each in done]}")


main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
