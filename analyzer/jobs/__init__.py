"""Jobs of several GPUs, as the service and the fleet's analysis report them: who trains together, what moving would save."""
