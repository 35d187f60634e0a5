//! The client: `farline cp`.
