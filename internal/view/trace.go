package view

// The kinds of a TraceEvent.
const (
	KernelEvent  = "kernel"
	SendEvent    = "send"
	ReceiveEvent = "receive"
	WaitEvent    = "wait"    // a kernel that has begun and is not computing
	PushEvent    = "push"    // an instant: a tensor is sent to another task
	ArrivalEvent = "arrival" // an instant: a tensor has arrived
	StepEvent    = "step"    // of a session of the task
	PartEvent    = "part"    // of a step
	PlanEvent    = "plan"    // the building of a plan
)
