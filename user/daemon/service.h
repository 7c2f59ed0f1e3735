/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_SERVICE_H
#define BPFPROF_DAEMON_SERVICE_H

/*
 * Notifies the service manager that started the daemon (sd_notify(3), the protocol over
 * $NOTIFY_SOCKET). Without a service manager nothing happens.
 */
void service_notify(const char *state);

#endif
