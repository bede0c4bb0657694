// Package doctor finds what is wrong with a cluster and with the machine that asks. [Collect] gathers [Facts]: it looks
// up hosts, connects to tasks, and reads what the system reports. The checks are functions of the facts alone, so tests
// need no network.
package doctor
