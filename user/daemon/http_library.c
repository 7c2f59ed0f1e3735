// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_library.h"

#include <microhttpd.h>
#include <stdarg.h>

#include "base/library.h"

static struct {
	void *handle;
	typeof(MHD_add_response_header) *add_response_header;
	typeof(MHD_create_response_from_buffer) *create_response_from_buffer;
	typeof(MHD_create_response_from_callback) *create_response_from_callback;
	typeof(MHD_destroy_response) *destroy_response;
	typeof(MHD_get_connection_info) *get_connection_info;
	typeof(MHD_get_connection_values_n) *get_connection_values_n;
	typeof(MHD_get_daemon_info) *get_daemon_info;
	typeof(MHD_get_timeout) *get_timeout;
	typeof(MHD_lookup_connection_value) *lookup_connection_value;
	typeof(MHD_queue_response) *queue_response;
	typeof(MHD_resume_connection) *resume_connection;
	typeof(MHD_add_connection) *add_connection;
	typeof(MHD_run) *run;
	typeof(MHD_start_daemon_va) *start_daemon_va;
	typeof(MHD_stop_daemon) *stop_daemon;
	typeof(MHD_suspend_connection) *suspend_connection;
} lib;

static const struct library_function functions[] = {
	{ "MHD_add_response_header", &lib.add_response_header },
	{ "MHD_create_response_from_buffer", &lib.create_response_from_buffer },
	{ "MHD_create_response_from_callback", &lib.create_response_from_callback },
	{ "MHD_destroy_response", &lib.destroy_response },
	{ "MHD_get_connection_info", &lib.get_connection_info },
	{ "MHD_get_connection_values_n", &lib.get_connection_values_n },
	{ "MHD_get_daemon_info", &lib.get_daemon_info },
	{ "MHD_get_timeout", &lib.get_timeout },
	{ "MHD_lookup_connection_value", &lib.lookup_connection_value },
	{ "MHD_queue_response", &lib.queue_response },
	{ "MHD_resume_connection", &lib.resume_connection },
	{ "MHD_add_connection", &lib.add_connection },
	{ "MHD_run", &lib.run },
	{ "MHD_start_daemon_va", &lib.start_daemon_va },
	{ "MHD_stop_daemon", &lib.stop_daemon },
	{ "MHD_suspend_connection", &lib.suspend_connection },
};

int http_library_load(void)
{
	return library_load(&lib.handle, HTTP_LIBRARY, functions,
			    sizeof(functions) / sizeof(functions[0]));
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *response, const char *header,
					const char *content)
{
	return lib.add_response_header(response, header, content);
}

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *buffer,
						     enum MHD_ResponseMemoryMode mode)
{
	return lib.create_response_from_buffer(size, buffer, mode);
}

struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block_size,
						       MHD_ContentReaderCallback read, void *arg,
						       MHD_ContentReaderFreeCallback free_arg)
{
	return lib.create_response_from_callback(size, block_size, read, arg, free_arg);
}

void MHD_destroy_response(struct MHD_Response *response)
{
	lib.destroy_response(response);
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
							enum MHD_ConnectionInfoType type, ...)
{
	return lib.get_connection_info(connection, type);
}

int MHD_get_connection_values_n(struct MHD_Connection *connection, enum MHD_ValueKind kind,
				MHD_KeyValueIteratorN iterator, void *arg)
{
	return lib.get_connection_values_n(connection, kind, iterator, arg);
}

const union MHD_DaemonInfo *MHD_get_daemon_info(struct MHD_Daemon *daemon,
						enum MHD_DaemonInfoType type, ...)
{
	return lib.get_daemon_info(daemon, type);
}

enum MHD_Result MHD_get_timeout(struct MHD_Daemon *daemon, MHD_UNSIGNED_LONG_LONG *timeout)
{
	return lib.get_timeout(daemon, timeout);
}

const char *MHD_lookup_connection_value(struct MHD_Connection *connection, enum MHD_ValueKind kind,
					const char *key)
{
	return lib.lookup_connection_value(connection, kind, key);
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned int status,
				   struct MHD_Response *response)
{
	return lib.queue_response(connection, status, response);
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
	lib.resume_connection(connection);
}

enum MHD_Result MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd,
				   const struct sockaddr *address, socklen_t len)
{
	return lib.add_connection(daemon, fd, address, len);
}

enum MHD_Result MHD_run(struct MHD_Daemon *daemon)
{
	return lib.run(daemon);
}

struct MHD_Daemon *MHD_start_daemon(unsigned int flags, uint16_t port,
				    MHD_AcceptPolicyCallback accept, void *accept_arg,
				    MHD_AccessHandlerCallback handler, void *handler_arg, ...)
{
	struct MHD_Daemon *daemon;
	va_list options;

	va_start(options, handler_arg);
	daemon =
		lib.start_daemon_va(flags, port, accept, accept_arg, handler, handler_arg, options);
	va_end(options);
	return daemon;
}

void MHD_stop_daemon(struct MHD_Daemon *daemon)
{
	lib.stop_daemon(daemon);
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
	lib.suspend_connection(connection);
}
