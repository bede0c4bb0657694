package view

// The kinds of a TraceEvent.
const (
	KernelEvent  = "kernel"
	SendEvent    = "send"
	ReceiveEvent = "receive"
	PushEvent    = "push"    // an instant: a tensor leaves for another task
	ArrivalEvent = "arrival" // an instant: it has come
	StepEvent    = "step"    // of a session of the task
	PartEvent    = "part"    // of a step
	PlanEvent    = "plan"    // the building of a plan
)
