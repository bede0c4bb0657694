package graph

// AnonymousName is the shared_name with which TensorFlow requests a variable that is in no container and is destroyed with its last handle
// (ResourceHandle::ANONYMOUS_NAME).
const AnonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
