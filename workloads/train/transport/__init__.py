"""Over which network the ranks really talk: NCCL's own words, read, judged and compared with what was asked for."""
