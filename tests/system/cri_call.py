#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One call of containerd's CRI: cri_call.py SOCKET METHOD, the message on standard input, the answer on standard output.

A program of its own because Debian's python3-grpcio is only for Debian's Python.
"""

import sys

import grpc


def same(data):
    return data


def main():
    with grpc.insecure_channel("unix://" + sys.argv[1]) as channel:
        call = channel.unary_unary("/runtime.v1." + sys.argv[2], request_serializer=same,
                                   response_deserializer=same)
        try:
            sys.stdout.buffer.write(call(sys.stdin.buffer.read(), timeout=60))
        except grpc.RpcError as error:
            sys.exit("%s: %s" % (sys.argv[2], error.details()))


if __name__ == "__main__":
    main()
