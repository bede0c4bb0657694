package observe

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/troupe-run/troupe/internal/view"
)

// metric is a metric, with its documentation.
type metric struct {
	name, help string
	labels     []string
	kind       string // counter, gauge or histogram
	desc       *prometheus.Desc
}

// all holds the metrics in the order of their declarations, which is that of the page that lists them.
var all []*metric

func declare(kind, name, help string, labels []string) *metric {
	m := &metric{name, help, labels, kind, prometheus.NewDesc(name, help, labels, nil)}
	all = append(all, m)
	return m
}

func counter(name, help string, labels ...string) *metric {
	return declare("counter", name, help, labels)
}

func gauge(name, help string, labels ...string) *metric {
	return declare("gauge", name, help, labels)
}

func histogram(name, help string, labels ...string) *metric {
	return declare("histogram", name, help, labels)
}

// Of the process.
var (
	buildInfo   = gauge("troupe_build_info", "1, for the version of the program.", "version")
	memoryInUse = gauge("troupe_memory_in_use_bytes", "Memory that counts against the process's limit: tensors, and what else requests hold.")
	memoryLimit = gauge("troupe_memory_limit_bytes", "The limit of --process-memory; 0 for none.")
)

// Of each task of the process, whose full name is the label task.
var (
	startTime = gauge("troupe_task_start_time_seconds", "When the task started, in seconds since 1970.", "task")
	certFrom  = gauge("troupe_certificate_start_time_seconds", "From when the task's certificate is valid, in seconds since 1970.", "task")
	certUntil = gauge("troupe_certificate_expiry_time_seconds", "When the task's certificate expires, or an authority that vouches for it does, in seconds since 1970.", "task")
	declared  = gauge("troupe_cluster_tasks", "Tasks of the cluster by their state, as the task sees them: up, down, never seen.", "task", "state")

	sessions       = gauge("troupe_sessions", "Sessions that are open on the task, their master.", "task")
	sessionsOpened = counter("troupe_sessions_opened_total", "Sessions that were opened.", "task")
	sessionsClosed = counter("troupe_sessions_closed_total", "Sessions that have ended; reason is close, or lease where the client had gone and did not come back.", "task", "reason")

	eagerContexts  = gauge("troupe_eager_contexts", "Eager contexts of TensorFlow 2 clients that are open on the task. Each is one of the sessions.", "task")
	eagerHandles   = gauge("troupe_eager_handles", "Tensors that eager contexts hold for their clients.", "task")
	eagerFunctions = gauge("troupe_eager_functions", "Functions that clients have registered in eager contexts, components of other tasks' functions included.", "task")

	stepsRunning = gauge("troupe_steps_running", "Steps that run and whose master the task is.", "task")
	steps        = counter("troupe_steps_total", "Steps that have ended and whose master the task is; outcome is ok or failed, code the name of the error's code.", "task", "outcome", "code")
	stepSeconds  = histogram("troupe_step_duration_seconds", "How long steps took, from the client's call to its answer. Of steps that did not wait, every 16th is timed and counts for all.", "task")
	planSeconds  = histogram("troupe_plan_build_seconds", "How long plans took to build. A session builds one for each new set of feeds, fetches and targets.", "task")
	remote       = histogram("troupe_step_remote_wait_seconds", "For how long steps with parts on other tasks waited for these after their own part had ended.", "task")
	parts        = counter("troupe_parts_total", "Parts of other masters' steps that the task has begun.", "task")

	connections = gauge("troupe_connections", "Connections for calls that the task's port has accepted and that are open: clients' and tools'. Links to other tasks are not counted.", "task")

	linkUp               = gauge("troupe_link_up", "1 while there is a link to the peer, a task of the cluster; 0 where it broke, or nothing has needed one.", "task", "peer")
	linkSentBytes        = counter("troupe_link_sent_bytes_total", "Bytes of tensors that were sent to the peer, or that it read from memory.", "task", "peer")
	linkReceivedBytes    = counter("troupe_link_received_bytes_total", "Bytes of tensors that came from the peer, or were read from its memory.", "task", "peer")
	linkSentMessages     = counter("troupe_link_sent_messages_total", "Messages that actors sent to the peer.", "task", "peer")
	linkReceivedMessages = counter("troupe_link_received_messages_total", "Messages that came from the peer's actors.", "task", "peer")
	linkQueued           = gauge("troupe_link_queued_bytes", "Bytes of tensors that wait to be sent to the peer.", "task", "peer")
	linkStalled          = gauge("troupe_link_stalled_seconds", "How long the peer has taken none of the bytes that wait for it; 0 while it takes them.", "task", "peer")

	deviceUp     = gauge("troupe_device_up", "1 while the device is in service, 0 while it is lost.", "task", "device")
	deviceLosses = counter("troupe_device_losses_total", "How often the device was lost.", "task", "device")
	deviceMemory = gauge("troupe_device_memory_bytes", "The device's memory; state is in_use, by tensors, or idle, kept for tensors to come.", "task", "device", "state")
	devicePeak   = gauge("troupe_device_memory_peak_bytes", "The most memory of the device that tensors have taken.", "task", "device")
	deviceLimit  = gauge("troupe_device_memory_limit_bytes", "The limit of the device's memory; 0 for none.", "task", "device")
	deviceParts  = counter("troupe_device_parts_total", "Parts of steps that have ended on the device; outcome is ok, failed, or refused while the device was lost.", "task", "device", "outcome")
	deviceNow    = gauge("troupe_device_parts_running", "Parts of steps that run on the device.", "task", "device")
	programs     = gauge("troupe_device_programs", "Compiled programs in use on the device.", "task", "device")

	resources = gauge("troupe_resources", "Resources of named containers by kind, such as variable, queue, table, iterator.", "task", "kind")

	dataResources = gauge("troupe_data_resources", "Resources of durable containers, which --data keeps on disk.", "task")
	dataDisk      = gauge("troupe_data_disk_bytes", "Size of the files that keep the durable containers.", "task")
	dataPending   = gauge("troupe_data_pending_bytes", "Changes of durable containers that are not on disk yet.", "task")
	dataSteps     = counter("troupe_data_steps_total", "Steps, and other changes, whose changes of durable containers are on disk.", "task")
	dataCommits   = counter("troupe_data_commits_total", "Writes to the disk of durable containers. Steps that end together share one.", "task")
	dataWritten   = counter("troupe_data_written_bytes_total", "Bytes of changes that were written to the disk of durable containers.", "task")
	dataSync      = counter("troupe_data_sync_seconds_total", "How long commits of durable containers waited for the disk.", "task")
	dataSplits    = counter("troupe_data_splits_total", "Steps whose changes of durable containers reached the disk in parts, since others could not wait for their end.", "task")
	dataRefusing  = gauge("troupe_data_refusing", "1 while what adds to durable containers is refused: there is no room (--data-limit, the disk), or the disk has failed.", "task")

	queueElements  = gauge("troupe_queue_elements", "Elements in the queue. Only the queues with the most elements have metrics of their own; troupe_queues_omitted counts the others.", "task", "device", "container", "queue")
	queueCapacity  = gauge("troupe_queue_capacity", "The most elements that the queue takes; +Inf without a bound.", "task", "device", "container", "queue")
	queueEnqueued  = counter("troupe_queue_enqueued_total", "Elements that were enqueued.", "task", "device", "container", "queue")
	queueDequeued  = counter("troupe_queue_dequeued_total", "Elements that were dequeued.", "task", "device", "container", "queue")
	queueWaiting   = gauge("troupe_queue_waiting", "Operations that wait for the queue; operation is enqueue or dequeue.", "task", "device", "container", "queue", "operation")
	queueWaitedFor = gauge("troupe_queue_longest_wait_seconds", "How long the operation that came first has waited for the queue; 0 if none waits.", "task", "device", "container", "queue")
	queueClosed    = gauge("troupe_queue_closed", "1 for a queue that is closed.", "task", "device", "container", "queue")
	queuesOmitted  = gauge("troupe_queues_omitted", "Queues without metrics of their own, since others have more elements (--http-queues).", "task")
	omitted        = gauge("troupe_resources_omitted", "Resources that were not looked at, since the task has too many.", "task")

	actors        = gauge("troupe_actors", "Actors of the task by kind: master, session, worker, directory, device, container, queue, and program/KIND of programs' own.", "task", "kind")
	actorWaiting  = gauge("troupe_actor_waiting_messages", "Messages that wait in the mailboxes of the kind's actors.", "task", "kind")
	actorMessages = counter("troupe_actor_messages_total", "Messages that actors of the kind have handled, those that have ended included.", "task", "kind")
	actorPanics   = counter("troupe_actor_panics_total", "Panics of actors of the kind. Each is a bug.", "task", "kind")
	actorRestarts = counter("troupe_actor_restarts_total", "Restarts of actors of the kind after failures. Only kinds of programs' own restart.", "task", "kind")
)

// maxLabel bounds a label's value, in bytes: names come from clients' graphs.
const maxLabel = 256

// label converts a text to the value of a label, which people read on terminals, too. label(label(text)) is label(text).
func label(text string) string {
	if text = view.Printable(text); len(text) > maxLabel {
		text = text[:maxLabel] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// buckets returns a histogram's cumulative counts by upper bound in seconds, with the count and the sum of all.
func buckets(h *view.Histogram) (count uint64, sum float64, bounds map[float64]uint64) {
	bounds = map[float64]uint64{}
	for i, n := range h.GetCounts() {
		count += uint64(n)
		if bound, ok := view.BucketBound(i); ok {
			bounds[bound.Seconds()] = count
		}
	}
	return count, h.GetSum(), bounds
}
