/*
 * Which network a job uses: the one of --nic, or the one that the routes to its hosts
 * take. The name of an interface tells nothing: docker0 has an address on every host, and
 * eth0 here is ens5 there.
 */
#ifndef TUTTI_LAUNCHER_MPI_LAUNCHER_JOB_NETWORK_H
#define TUTTI_LAUNCHER_MPI_LAUNCHER_JOB_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <tutti/tutti.h>

#include "launcher/arguments.h"
#include "launcher/hosts/host_list.h"

enum {
    NETWORK_ADDRESS_MAX = 64, /* bytes of a numeric address with its zero      */
    NETWORK_NAME_MAX = 16, /* bytes of an interface's name with its zero    */
    NETWORK_RANGES_MAX = 8, /* ranges that --nic takes                       */
    NETWORK_CIDRS_MAX = 512, /* bytes of a list of ranges with its zero       */
    NETWORK_INTERFACES_MAX = 256 /* addresses of this machine that are looked at  */
};

/** What tells supervisors the value of --nic, so that each finds its own interface. */
#define NETWORK_VARIABLE "TUTTI_INTERNAL_NIC"

/** An address and how many of its bits count; IPv4 as ::ffff:a.b.c.d. */
struct network_range {
    uint8_t bytes[16]; /* of the address, most significant first */
    unsigned bits; /* 0 to 128; IPv4: 96 more than is written */
};

/** One address of an interface of this machine. */
struct network_interface {
    char name[NETWORK_NAME_MAX];
    struct network_range range; /* its address, and the bits of its network */
    bool is_loopback;
};

/** Interfaces of this machine. */
struct network_table {
    struct network_interface interfaces[NETWORK_INTERFACES_MAX];
    size_t count;
};

/** What the MPI launcher is told. Zeroed: nothing, MPI chooses. */
struct network_choice {
    char cidrs[NETWORK_CIDRS_MAX]; /* "10.0.0.0/8,fd00::/64"; "": MPI chooses */
    char interface[NETWORK_NAME_MAX]; /* of this machine inside them; "": none   */
    bool is_asked; /* --nic said so, so that programs are told too            */
};

/** The way from this machine to a host. */
struct network_route {
    uint8_t source[16]; /* our address on it */
    uint8_t peer[16]; /* the host's        */
};

/* Pure. */

/** Reads "10.0.0.0/8", "fd00::/64" or an address, which is a range of one. */
bool network_range_parse(struct network_range *range, const char *text);
/** "10.0.0.0/8", without the bits that do not count. */
void network_range_format(
        const struct network_range *range, char text[NETWORK_ADDRESS_MAX]);
bool network_range_has(const struct network_range *range, const uint8_t bytes[16]);
/** The bytes of a socket's address; false when it is of another family, or NULL. */
bool network_bytes_of(const struct sockaddr *address, uint8_t bytes[16]);
/** fe80::... means something only together with an interface: others cannot use it. */
bool network_is_link_local(const uint8_t bytes[16]);
/** An address alone: "10.1.2.3". */
void network_address_format(const uint8_t bytes[16], char text[NETWORK_ADDRESS_MAX]);
/**
 * The address of a socket as text, IPv4 in IPv6 as IPv4.
 * @return false when no other host can use it: it is of one link only, or of another family,
 *         for which the text is ""
 */
bool network_address_of(const struct sockaddr *address, char text[NETWORK_ADDRESS_MAX]);
/**
 * The first of some numeric addresses that is inside the first range possible of
 * "10.0.0.0/8,fd00::/64"; NULL when there is none.
 */
const char *network_first_inside(
        const char *ranges, const char (*addresses)[NETWORK_ADDRESS_MAX], size_t count);

/**
 * Chooses by the value of --nic: ranges or names of interfaces of this machine, with
 * commas between.
 * @return TUTTI_OK, TUTTI_ERR_INVALID (names the entry and what this machine has)
 */
TUTTI_MUST_USE tutti_status network_choose_asked(const struct network_table *table,
        const char *nic, struct network_choice *choice);
/**
 * Chooses the network that all routes take when all hosts are on it; else nothing: what
 * lies behind a router has networks of its own.
 */
void network_choose_routes(const struct network_table *table,
        const struct network_route *routes, size_t count,
        struct network_choice *choice);

/* These look at this machine. */

/** The interfaces that are up. */
TUTTI_MUST_USE tutti_status network_read(struct network_table *table);

/** True when every host is this machine, by name or address; no name but ours is looked up. */
bool network_is_here(const struct host_list *hosts);

/** True when this machine has the address of a host. Looks the name up. */
bool network_is_ours(const char *name);

/**
 * Our address on the route to a numeric one. No packet is sent.
 * @return false when there is no route; text is then ""
 */
bool network_source(const char *to, char text[NETWORK_ADDRESS_MAX]);

/**
 * What the MPI launcher is told. `nic` is the value of --nic; NULL: by route; "mpi": nothing.
 * @return TUTTI_OK, TUTTI_ERR_INVALID, TUTTI_ERR_SYSTEM
 */
TUTTI_MUST_USE tutti_status network_choose(
        const struct host_list *hosts, const char *nic, struct network_choice *choice);

/**
 * The numeric addresses of this machine in the order in which the hosts should try them:
 * those of --nic, or those that the routes to the hosts take and then the others. Only
 * loopback when every host is this machine. Resolves names, so it may take a moment.
 * @param hosts  NULL: not known yet, and so all addresses, loopback aside
 * @param nic  the value of --nic, or NULL
 * @param[out] count  at least 1, at most `capacity`
 * @return TUTTI_OK, TUTTI_ERR_INVALID (no address in the ranges of --nic),
 *         TUTTI_ERR_SYSTEM (the interfaces cannot be read)
 */
TUTTI_MUST_USE tutti_status network_addresses(const struct host_list *hosts,
        const char *nic, char (*addresses)[NETWORK_ADDRESS_MAX], size_t capacity,
        size_t *count);

/**
 * For a supervisor: tells NCCL and UCX the interface of *this* host that lies inside the
 * ranges of NETWORK_VARIABLE, by NCCL_SOCKET_IFNAME and UCX_NET_DEVICES, where the user
 * did not set them. Without that variable, or on a host without such an interface, does
 * nothing.
 */
void network_export(struct arguments *environment);

#endif
