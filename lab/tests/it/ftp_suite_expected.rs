/// What fails of the suite, and why.
const EXPECTED: &[(&str, &str)] = &[];
