//! Whether the layouts of `abi` are those of the C header of this machine. Needs a C compiler and `infiniband/verbs.h`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fmt::Write as _,
    fs,
    mem::{offset_of, size_of},
    path::Path,
    process::Command,
};

use antiphase_verbs::abi::{
    self, AddressVector, AsyncEvent, Channel, Completion, Context, ContextOps, DeviceAttributes, Piece, PortAttributes, QueueCapacity,
    QueueOptions, QueuePair, QueueState, Region, SendRequest,
};

/// Of Debian's libibverbs-dev, and of every vendor's package.
const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// Expressions of C beside what we take for their values.
fn expected() -> Vec<(&'static str, u64)> {
    let bytes = vec![
        ("sizeof(struct ibv_context_ops)", size_of::<ContextOps>()),
        ("offsetof(struct ibv_context_ops, poll_cq)", offset_of!(ContextOps, poll)),
        ("offsetof(struct ibv_context_ops, req_notify_cq)", offset_of!(ContextOps, notify)),
        ("offsetof(struct ibv_context_ops, post_send)", offset_of!(ContextOps, send)),
        ("offsetof(struct ibv_context, ops)", offset_of!(Context, ops)),
        ("offsetof(struct ibv_context, async_fd)", offset_of!(Context, async_fd)),
        ("offsetof(struct ibv_comp_channel, fd)", offset_of!(Channel, fd)),
        ("offsetof(struct ibv_qp, qp_num)", offset_of!(QueuePair, number)),
        ("offsetof(struct ibv_mr, lkey)", offset_of!(Region, local_key)),
        ("offsetof(struct ibv_mr, rkey)", offset_of!(Region, remote_key)),
        ("sizeof(struct ibv_device_attr)", size_of::<DeviceAttributes>()),
        ("offsetof(struct ibv_device_attr, node_guid)", offset_of!(DeviceAttributes, node_guid)),
        ("offsetof(struct ibv_device_attr, phys_port_cnt)", offset_of!(DeviceAttributes, ports)),
        ("sizeof(struct ibv_port_attr)", size_of::<PortAttributes>()),
        ("offsetof(struct ibv_port_attr, active_mtu)", offset_of!(PortAttributes, active_mtu)),
        ("offsetof(struct ibv_port_attr, gid_tbl_len)", offset_of!(PortAttributes, gids)),
        ("offsetof(struct ibv_port_attr, phys_state)", offset_of!(PortAttributes, physical_state)),
        ("offsetof(struct ibv_port_attr, link_layer)", offset_of!(PortAttributes, link_layer)),
        ("sizeof(struct ibv_async_event)", size_of::<AsyncEvent>()),
        ("offsetof(struct ibv_async_event, event_type)", offset_of!(AsyncEvent, kind)),
        ("sizeof(struct ibv_qp_cap)", size_of::<QueueCapacity>()),
        ("sizeof(struct ibv_qp_init_attr)", size_of::<QueueOptions>()),
        ("offsetof(struct ibv_qp_init_attr, cap)", offset_of!(QueueOptions, capacity)),
        ("offsetof(struct ibv_qp_init_attr, qp_type)", offset_of!(QueueOptions, kind)),
        ("sizeof(struct ibv_ah_attr)", size_of::<AddressVector>()),
        ("offsetof(struct ibv_ah_attr, grh.sgid_index)", offset_of!(AddressVector, source_gid)),
        ("offsetof(struct ibv_ah_attr, grh.traffic_class)", offset_of!(AddressVector, traffic_class)),
        ("offsetof(struct ibv_ah_attr, is_global)", offset_of!(AddressVector, is_global)),
        ("offsetof(struct ibv_ah_attr, port_num)", offset_of!(AddressVector, port)),
        ("sizeof(struct ibv_qp_attr)", size_of::<QueueState>()),
        ("offsetof(struct ibv_qp_attr, path_mtu)", offset_of!(QueueState, mtu)),
        ("offsetof(struct ibv_qp_attr, rq_psn)", offset_of!(QueueState, receive_psn)),
        ("offsetof(struct ibv_qp_attr, qp_access_flags)", offset_of!(QueueState, access)),
        ("offsetof(struct ibv_qp_attr, ah_attr)", offset_of!(QueueState, vector)),
        ("offsetof(struct ibv_qp_attr, max_rd_atomic)", offset_of!(QueueState, reads)),
        ("offsetof(struct ibv_qp_attr, port_num)", offset_of!(QueueState, port)),
        ("offsetof(struct ibv_qp_attr, rnr_retry)", offset_of!(QueueState, receiver_retries)),
        ("sizeof(struct ibv_sge)", size_of::<Piece>()),
        ("sizeof(struct ibv_send_wr)", size_of::<SendRequest>()),
        ("offsetof(struct ibv_send_wr, send_flags)", offset_of!(SendRequest, flags)),
        ("offsetof(struct ibv_send_wr, wr.rdma.remote_addr)", offset_of!(SendRequest, remote_address)),
        ("offsetof(struct ibv_send_wr, wr.rdma.rkey)", offset_of!(SendRequest, remote_key)),
        ("sizeof(struct ibv_wc)", size_of::<Completion>()),
        ("offsetof(struct ibv_wc, status)", offset_of!(Completion, status)),
        ("offsetof(struct ibv_wc, vendor_err)", offset_of!(Completion, vendor_error)),
    ];
    let numbers = vec![
        ("IBV_QPT_RC", abi::RELIABLE_CONNECTION),
        ("IBV_QPS_INIT", abi::STATE_INIT),
        ("IBV_QPS_RTR", abi::STATE_RECEIVES),
        ("IBV_QPS_RTS", abi::STATE_SENDS),
        ("IBV_WR_RDMA_WRITE", abi::OPCODE_WRITE),
        ("IBV_SEND_SIGNALED", abi::SIGNALED),
        ("IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS", abi::MASK_INIT as u32),
        (
            "IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER",
            abi::MASK_RECEIVES as u32,
        ),
        (
            "IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC",
            abi::MASK_SENDS as u32,
        ),
        ("IBV_ACCESS_LOCAL_WRITE", abi::ACCESS_LOCAL_WRITE as u32),
        ("IBV_ACCESS_REMOTE_WRITE", abi::ACCESS_REMOTE_WRITE as u32),
        ("IBV_LINK_LAYER_INFINIBAND", u32::from(abi::LINK_LAYER_INFINIBAND)),
        ("IBV_LINK_LAYER_ETHERNET", u32::from(abi::LINK_LAYER_ETHERNET)),
    ];
    let bytes = bytes.into_iter().map(|(expression, bytes)| (expression, bytes as u64));
    bytes.chain(numbers.into_iter().map(|(expression, number)| (expression, u64::from(number)))).collect()
}

#[test]
fn layouts_and_numbers_are_those_of_the_c_header() {
    if !Path::new(HEADER).exists() {
        println!("skipped: {HEADER} is missing (libibverbs-dev)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    let mut text = String::from("#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {\n");
    for (expression, _) in expected() {
        writeln!(text, "    printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    text.push_str("    return 0;\n}\n");
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let values: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    let expected = expected();
    assert_eq!(values.len(), expected.len());
    let wrong: Vec<_> = expected.iter().zip(values).filter(|((_, ours), c)| ours != c).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
